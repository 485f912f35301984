-- Threads that go, or keep only their newest state, when nothing has happened on them for a time; runs that keep only their last state.
alter table threads
  add column ttl_minutes float8 check (ttl_minutes > 0),
  add column ttl_strategy text check (ttl_strategy in ('delete', 'keep_latest')),
  add constraint threads_ttl check ((ttl_minutes is null) = (ttl_strategy is null));

-- Whatever changes a thread sets its timer, if it isn't set: together with the change, whichever process makes it. A timer that is due
-- too early is put off by who looks at it; only one that would be due too late is brought forward.
create function thread_ttl_due() returns trigger
language plpgsql as $due$
begin
  insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
  values (new.tenant_id, gen_random_uuid(), 'thread.ttl', new.thread_id, new.updated_at + new.ttl_minutes * interval '1 minute')
  on conflict (tenant_id, kind, ref_id) where status = 'due'
  do update set due_at = excluded.due_at, updated_at = clock_timestamp()
  where excluded.due_at < timers.due_at;
  return null;
end
$due$;

create trigger thread_ttl_due_new after insert on threads
  for each row
  when (new.ttl_minutes is not null and not new.ephemeral)
  execute function thread_ttl_due();

-- Pruning a thread changes nothing for who counts from its last change, and must not set the timer again.
create trigger thread_ttl_due after update on threads
  for each row
  when (new.ttl_minutes is not null and not new.ephemeral and (new.updated_at <> old.updated_at
    or new.ttl_minutes is distinct from old.ttl_minutes or new.ttl_strategy is distinct from old.ttl_strategy
    or old.ephemeral))
  execute function thread_ttl_due();

-- A run of which only the state it ends in is to stay: whoever ends it sets the timer that has the others removed.
alter table runs add column keeps_last boolean not null default false;

create function run_prune_due() returns trigger
language plpgsql as $due$
begin
  perform set_due_timer(new.tenant_id, 'run.prune', new.run_id);
  return null;
end
$due$;

create trigger run_prune_due after update of status on runs
  for each row
  when (new.keeps_last and new.status <> old.status and new.status not in ('pending', 'running'))
  execute function run_prune_due();
