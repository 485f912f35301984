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
    'pending', 'running', 'waiting_approval', 'produced', 'cancelled', 'expired', 'skipped', 'dead')),
  -- Why it is as it is, in a word.
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
create index followups_open on followups (tenant_id, thread_id) where status in ('pending', 'running', 'waiting_approval');
create index followups_newest on followups (tenant_id, created_at desc);
create index followups_dedupe on followups (tenant_id, dedupe_sha256) where status = 'pending';

-- Of which follow-up a run is, and whether it does the work or tells of it.
alter table runs add column followup_id uuid;
alter table runs add column followup_part text check (followup_part in ('work', 'tell'));
create index runs_followup on runs (tenant_id, followup_id) where followup_id is not null;

-- A run of a follow-up has ended: what that makes of the follow-up. In the transaction that settles the run.
create function followup_run_ended(tenant text, followup uuid, part text, ended text, code text, waits text) returns void
language plpgsql volatile as $ended$
begin
  update followups f
  set status = case
        when f.status = 'cancelled' then f.status
        when ended = 'success' and part = 'tell' then 'produced'
        when ended = 'success' then 'running'
        when ended = 'interrupted' and waits = 'approval' then 'waiting_approval'
        else 'dead' end,
    reason = case when ended not in ('success', 'interrupted') then code end,
    updated_at = clock_timestamp()
  where f.tenant_id = tenant and f.followup_id = followup;
  if ended = 'success' and part = 'work' then
    insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
    values (tenant, gen_random_uuid(), 'followup.tell', followup, clock_timestamp())
    on conflict (tenant_id, kind, ref_id) where status = 'due' do nothing;
  end if;
end
$ended$;
