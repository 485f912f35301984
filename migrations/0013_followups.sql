-- What an agent said it would do later: one row each, with its address fixed when it was scheduled. When it is due is its timer's.
create table followups (
  tenant_id text collate "C" not null,
  followup_id uuid not null,
  -- The conversation's thread, where the answer goes.
  thread_id uuid not null,
  -- The run that scheduled it; null: somebody did over the API.
  origin_run_id uuid,
  assistant_id uuid not null,
  graph_id text collate "C" not null,
  created_by text not null check (created_by in ('agent', 'user', 'tenant')),
  -- remind: a text that was written then. work: the graph is run, on a thread of its own.
  mode text not null check (mode in ('remind', 'work')),
  -- JSON {about, instruction}: content.
  content bytea not null,
  -- Where it was asked; null: only on the thread.
  conversation_id uuid,
  fire_at timestamptz not null,
  -- As it was asked for: the wall clock's time, and whose.
  local_time text,
  time_zone text,
  not_after timestamptz,
  cancel_on_inbound boolean not null default false,
  status text not null default 'pending' check (status in (
    'pending', 'parked', 'running', 'waiting_approval', 'produced', 'cancelled', 'expired', 'skipped', 'dead')),
  -- Why it is as it is, in a word. parked: nothing arrives where it is to go, until the person writes.
  reason text,
  -- The run that does the work, and that which tells of it on the thread.
  run_id uuid,
  tell_run_id uuid,
  depth int not null default 0,
  chain_id uuid not null,
  -- Of who, what and about when: what is asked for twice in a row is one.
  dedupe_sha256 bytea not null check (length(dedupe_sha256) = 32),
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, followup_id),
  foreign key (tenant_id, thread_id) references threads on delete cascade
);
create index followups_thread on followups (tenant_id, thread_id, created_at desc);
create index followups_open on followups (tenant_id, thread_id) where status in ('pending', 'parked', 'running', 'waiting_approval');
create index followups_newest on followups (tenant_id, created_at desc);
create index followups_dedupe on followups (tenant_id, dedupe_sha256) where status in ('pending', 'parked');
-- What waits until a person is reachable again.
create index followups_parked on followups (tenant_id, conversation_id) where status = 'parked';

-- Of which follow-up a run is, and whether it does the work or tells of it.
alter table runs add column followup_id uuid;
alter table runs add column followup_part text check (followup_part in ('work', 'tell'));
create index runs_followup on runs (tenant_id, followup_id) where followup_id is not null;

-- A run of a follow-up has ended, however it has: what that makes of the follow-up. A trigger, since runs end in many ways (settled, cancelled,
-- given up, rolled back), and each must tell.
create function followup_run_ended() returns trigger
language plpgsql as $ended$
begin
  if tg_op = 'DELETE' then
    update followups f
    set status = 'cancelled', reason = 'its run is gone', updated_at = clock_timestamp()
    where f.tenant_id = old.tenant_id and f.followup_id = old.followup_id and f.status in ('running', 'waiting_approval');
    return null;
  end if;
  update followups f
  set status = case
        when f.status in ('cancelled', 'produced') then f.status
        when new.status = 'success' and new.followup_part = 'tell' then 'produced'
        when new.status = 'success' then 'running'
        when new.status = 'interrupted' and new.waits_for = 'approval' then 'waiting_approval'
        when new.status = 'interrupted' then 'cancelled'
        else 'dead' end,
    reason = case
        when f.status in ('cancelled', 'produced') then f.reason
        when new.status = 'interrupted' and new.waits_for is null then 'its run was cancelled'
        when new.status not in ('success', 'interrupted') then new.error_code end,
    updated_at = clock_timestamp()
  where f.tenant_id = new.tenant_id and f.followup_id = new.followup_id;
  if new.status = 'success' and new.followup_part = 'work' then
    perform set_due_timer(new.tenant_id, 'followup.tell', new.followup_id);
  end if;
  return null;
end
$ended$;

create trigger followup_run_ended after update of status on runs
  for each row
  when (new.followup_id is not null and new.status <> old.status and new.status not in ('pending', 'running'))
  execute function followup_run_ended();
create trigger followup_run_gone after delete on runs
  for each row
  when (old.followup_id is not null and old.status in ('pending', 'running', 'interrupted'))
  execute function followup_run_ended();

-- What was promised won't come: whoever has to know is told by the timer, whatever it was that failed.
create function followup_failed() returns trigger
language plpgsql as $failed$
begin
  perform set_due_timer(new.tenant_id, 'followup.tell', new.followup_id);
  return null;
end
$failed$;

create trigger followup_failed after update of status on followups
  for each row
  when (new.status in ('dead', 'expired') and old.status <> new.status)
  execute function followup_failed();

-- Messages arrive there again: what waited for that is due. Whoever parks has locked the conversation before.
create function conversation_reachable() returns trigger
language plpgsql as $reachable$
begin
  insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
  select f.tenant_id, gen_random_uuid(), 'followup', f.followup_id, clock_timestamp()
  from followups f
  where f.tenant_id = new.tenant_id and f.conversation_id = new.conversation_id and f.status = 'parked'
  order by f.followup_id
  on conflict (tenant_id, kind, ref_id) where status = 'due'
  do update set due_at = least(timers.due_at, excluded.due_at), updated_at = clock_timestamp();
  return null;
end
$reachable$;

create trigger conversation_reachable after update of unreachable_at on conversations
  for each row
  when (old.unreachable_at is not null and new.unreachable_at is null)
  execute function conversation_reachable();
