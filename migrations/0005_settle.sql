-- Ends attempts: run, stream, log, questions, timers and thread are true together or not at all, for many runs in one round trip.
-- A function, since threads must be locked by a statement of their own: what follows sees what others committed before.
-- Without `wait` a run whose thread is locked by somebody is left out and comes back as `locked`, so that it holds up no other.
create function settle_runs(
  owner text, wait boolean, move_after_ms float8, keep_ephemeral_ms float8,
  tenant_ids text[], thread_ids uuid[], run_ids uuid[], attempts int[], statuses text[], waits text[],
  checkpoint_ids uuid[], wake_ats timestamptz[],
  error_codes text[], error_types text[], error_previews text[], errors bytea[],
  first_ids bigint[], last_ids bigint[], lines text[],
  -- JSON arrays of {approval_id, interrupt_id, node, form, actions, policy}
  questions text[],
  -- JSON arrays for post_deliveries, null for runs that say nothing to anybody
  posted text[])
-- o_freed: a worker may find another run to start.
returns table (o_run_id uuid, o_how text, o_freed boolean)
language plpgsql volatile set plan_cache_mode = force_generic_plan set jit = off as $settle$
#variable_conflict use_column
declare
  free uuid[];
  done uuid[];
  freed uuid[];
  withdrawn_tenants text[];
  withdrawn uuid[];
  limited boolean := exists (select 1 from graph_limits);
begin
  if wait then
    perform 1
    from threads
    where (tenant_id, thread_id) in (select * from unnest(tenant_ids, thread_ids))
    order by tenant_id, thread_id
    for no key update;
  end if;
  free := array(
    select u.run_id
    from (
      select tenant_id, thread_id
      from threads
      where (tenant_id, thread_id) in (select * from unnest(tenant_ids, thread_ids))
      order by tenant_id, thread_id
      for no key update skip locked
    ) t
    join unnest(tenant_ids, thread_ids, run_ids) u(tenant_id, thread_id, run_id) using (tenant_id, thread_id));

  perform 1
  from runs
  where (tenant_id, thread_id) in (
      select u.tenant_id, u.thread_id
      from unnest(tenant_ids, thread_ids, run_ids) u(tenant_id, thread_id, run_id)
      where u.run_id = any(free))
    and status in ('pending', 'running')
  order by run_id
  for no key update;

  with ended as (
    update runs r
    set status = u.status, head = false, lease_owner = null, lease_expires_at = null, waits_for = u.waits_for,
      result_checkpoint_id = u.checkpoint_id, error_code = u.error_code, error_type = u.error_type,
      error_preview = u.error_preview, error = u.error, content_moved_at = null,
      finished_at = clock_timestamp(), updated_at = clock_timestamp()
    from unnest(tenant_ids, run_ids, attempts, statuses, waits, checkpoint_ids, error_codes, error_types, error_previews,
      errors) u(tenant_id, run_id, attempt, status, waits_for, checkpoint_id, error_code, error_type, error_preview, error)
    where r.tenant_id = u.tenant_id and r.run_id = u.run_id and r.attempt = u.attempt
      and r.status = 'running' and r.lease_owner = owner and r.run_id = any(free)
    returning r.run_id
  )
  select coalesce(array_agg(run_id), '{}') into done from ended;

  insert into stream_chunks (tenant_id, run_id, first_id, last_id, lines)
  select u.tenant_id, u.run_id, u.first_id, u.last_id, u.lines
  from unnest(tenant_ids, run_ids, first_ids, last_ids, lines) u(tenant_id, run_id, first_id, last_id, lines)
  where u.run_id = any(done) and u.lines is not null
  on conflict do nothing;

  insert into events (tenant_id, thread_id, run_id, attempt, type, payload)
  select u.tenant_id, u.thread_id, u.run_id, u.attempt, 'run.settled',
    jsonb_strip_nulls(jsonb_build_object('outcome', u.status, 'code', u.error_code, 'type', u.error_type))
  from unnest(tenant_ids, thread_ids, run_ids, attempts, statuses, error_codes, error_types)
    u(tenant_id, thread_id, run_id, attempt, status, error_code, error_type)
  where u.run_id = any(done);

  -- Where the graph had no place for an answer nothing was done with it: the questions are open again, with their times anew,
  -- since a deadline that is over would let nobody answer.
  with reopened as (
    update approvals a
    set status = 'pending', decided_at = null, decided_by = null, decided_run_id = null, decision = null,
      deadline_at = clock_timestamp() + (a.policy ->> 'deadline_ms')::float8 * interval '1 ms'
    from unnest(tenant_ids, thread_ids, run_ids, error_codes) u(tenant_id, thread_id, run_id, error_code)
    where u.run_id = any(done) and u.error_code = 'graph_changed' and a.tenant_id = u.tenant_id
      and a.thread_id = u.thread_id and a.status = 'decided' and a.decided_run_id = u.run_id
    returning a.tenant_id, a.approval_id, a.policy
  )
  insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
  select r.tenant_id, gen_random_uuid(), t.kind, r.approval_id,
    clock_timestamp() + (r.policy ->> t.after)::float8 * interval '1 ms'
  from reopened r
  cross join (values
    ('approval.deadline', 'deadline_ms'), ('approval.remind', 'remind_ms'), ('approval.escalate', 'escalate_ms')) t(kind, after)
  where r.policy ->> t.after is not null
  order by 1, 3, 4
  on conflict (tenant_id, kind, ref_id) where status = 'due' do nothing;

  -- What the state doesn't wait for any more can't be answered.
  with closed as (
    update approvals a
    set status = 'withdrawn', decided_at = clock_timestamp(), withdrawn_reason = 'the thread moved on'
    from unnest(tenant_ids, thread_ids, run_ids, questions, error_codes)
      u(tenant_id, thread_id, run_id, questions, error_code)
    where u.run_id = any(done) and a.tenant_id = u.tenant_id and a.thread_id = u.thread_id and a.status = 'pending'
      and u.error_code is distinct from 'graph_changed'
      and not exists (select 1 from json_array_elements(u.questions::json) q where q ->> 'interrupt_id' = a.interrupt_id)
    returning a.tenant_id, a.approval_id
  )
  select array_agg(tenant_id), array_agg(approval_id) into withdrawn_tenants, withdrawn from closed;
  if withdrawn is not null then
    insert into events (tenant_id, thread_id, run_id, attempt, type, payload)
    select a.tenant_id, a.thread_id, a.run_id, 0, 'approval.withdrawn',
      jsonb_build_object('interrupt_id', a.interrupt_id, 'reason', a.withdrawn_reason)
    from unnest(withdrawn_tenants, withdrawn) w(tenant_id, approval_id)
    join approvals a using (tenant_id, approval_id);
    update timers t
    set status = 'cancelled', updated_at = clock_timestamp()
    from unnest(withdrawn_tenants, withdrawn) w(tenant_id, approval_id)
    where t.tenant_id = w.tenant_id and t.ref_id = w.approval_id and t.status = 'due'
      and t.kind in ('approval.deadline', 'approval.remind', 'approval.escalate');
  end if;

  if exists (
    select 1 from unnest(run_ids, questions) u(run_id, questions) where u.run_id = any(done) and u.questions <> '[]')
  then
    -- One that is open already stays the same question, asked by this run now; one whose answer is on its way is not asked
    -- again; on the thread of a stateless run, which nobody sees, no answer could come.
    with asked as (
      insert into approvals (tenant_id, approval_id, thread_id, run_id, checkpoint_id, interrupt_id, node, form, actions,
        policy, deadline_at)
      select u.tenant_id, (q ->> 'approval_id')::uuid, u.thread_id, u.run_id, u.checkpoint_id, q ->> 'interrupt_id',
        q ->> 'node', q ->> 'form', (q ->> 'actions')::int, (q -> 'policy')::jsonb,
        clock_timestamp() + (q -> 'policy' ->> 'deadline_ms')::float8 * interval '1 ms'
      from unnest(tenant_ids, thread_ids, run_ids, checkpoint_ids, questions)
        u(tenant_id, thread_id, run_id, checkpoint_id, questions)
      join threads t on t.tenant_id = u.tenant_id and t.thread_id = u.thread_id and not t.ephemeral
      cross join lateral json_array_elements(u.questions::json) with ordinality asks(q, position)
      where u.run_id = any(done) and not exists (
        select 1
        from approvals d
        join runs r on r.tenant_id = d.tenant_id and r.run_id = d.decided_run_id and r.status in ('pending', 'running')
        where d.tenant_id = u.tenant_id and d.thread_id = u.thread_id and d.interrupt_id = q ->> 'interrupt_id'
          and d.status = 'decided')
      order by 1, 3, position
      on conflict (tenant_id, thread_id, interrupt_id) where status = 'pending'
      do update set run_id = excluded.run_id, checkpoint_id = excluded.checkpoint_id
      returning tenant_id, thread_id, run_id, approval_id, policy, deadline_at
    ), timed as (
      insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
      select a.tenant_id, gen_random_uuid(), t.kind, a.approval_id, t.due_at
      from asked a
      cross join lateral (values
        ('approval.deadline', a.deadline_at),
        ('approval.remind', clock_timestamp() + (a.policy ->> 'remind_ms')::float8 * interval '1 ms'),
        ('approval.escalate', clock_timestamp() + (a.policy ->> 'escalate_ms')::float8 * interval '1 ms')) t(kind, due_at)
      where t.due_at is not null
        -- One that was open already has its timers.
        and exists (
          select 1
          from unnest(questions) u(questions)
          cross join lateral json_array_elements(u.questions::json) q
          where q ->> 'approval_id' = a.approval_id::text)
      order by 1, 3, 4
      on conflict (tenant_id, kind, ref_id) where status = 'due' do nothing
    )
    insert into events (tenant_id, thread_id, run_id, attempt, type, payload)
    select u.tenant_id, u.thread_id, u.run_id, u.attempt, 'approval.asked', jsonb_build_object('interrupt_ids', (
      select jsonb_agg(q -> 'interrupt_id') from jsonb_array_elements(u.questions::jsonb) q))
    from unnest(tenant_ids, thread_ids, run_ids, attempts, questions)
      u(tenant_id, thread_id, run_id, attempt, questions)
    where exists (select 1 from asked a where a.tenant_id = u.tenant_id and a.run_id = u.run_id);
  end if;

  -- A stateless run's thread goes soon: it is not worth a pack. But not while a person has to decide.
  insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
  select w.tenant_id, gen_random_uuid(), w.kind, w.ref_id, w.due_at
  from (
    select u.tenant_id, case when g.goes then 'thread.delete' else 'move' end, u.thread_id,
      clock_timestamp() + case when g.goes then keep_ephemeral_ms else move_after_ms end * interval '1 ms'
    from unnest(tenant_ids, thread_ids, run_ids, waits) u(tenant_id, thread_id, run_id, waits_for)
    join threads t using (tenant_id, thread_id)
    cross join lateral (select t.ephemeral and u.waits_for is distinct from 'person' as goes) g
    where u.run_id = any(done)
    union all
    select u.tenant_id, 'run.wake', u.run_id, u.wake_at
    from unnest(tenant_ids, run_ids, wake_ats) u(tenant_id, run_id, wake_at)
    where u.run_id = any(done) and u.wake_at is not null
  ) w(tenant_id, kind, ref_id, due_at)
  order by 1, 3, 4
  on conflict (tenant_id, kind, ref_id) where status = 'due'
  do update set due_at = least(timers.due_at, excluded.due_at), updated_at = clock_timestamp();

  -- Inputs that come while a question is open wait for its answer, where it says so. When none is open they have their turn.
  update runs r
  set waits_for = case when u.holds or (u.asks and r.followup_part = 'tell') then 'approval' when r.available_at is not null then 'timer' end
  from (
    select tenant_id, thread_id, exists (
      select 1
      from approvals a
      where a.tenant_id = e.tenant_id and a.thread_id = e.thread_id and a.status = 'pending'
        and a.policy ->> 'on_message' = 'queue') as holds, exists (
      select 1
      from approvals a
      where a.tenant_id = e.tenant_id and a.thread_id = e.thread_id and a.status = 'pending') as asks
    from unnest(tenant_ids, thread_ids, run_ids) e(tenant_id, thread_id, run_id)
    where e.run_id = any(done)
  ) u
  where r.tenant_id = u.tenant_id and r.thread_id = u.thread_id and r.status = 'pending' and not r.head
    and r.kind = 'run' and (not r.resumes or r.followup_part = 'tell') and (r.available_at is null or r.merge_until is not null)
    and (u.holds or (u.asks and r.followup_part = 'tell')) = (r.waits_for is distinct from 'approval');

  -- What they say goes out. In the order of conversations, which are locked by it.
  perform post_deliveries(p.tenant_id, p.posted::json)
  from (
    select u.tenant_id, u.posted
    from unnest(tenant_ids, run_ids, posted) u(tenant_id, run_id, posted)
    where u.run_id = any(done) and u.posted is not null
    order by u.posted::json -> 0 ->> 'conversation_id'
  ) p;

  -- The next of each thread, if one may start.
  with next as (
    select distinct on (u.run_id) u.run_id as ended_id, r.tenant_id, r.run_id
    from unnest(tenant_ids, thread_ids, run_ids) u(tenant_id, thread_id, run_id)
    join runs r on r.tenant_id = u.tenant_id and r.thread_id = u.thread_id
      and r.status = 'pending' and (r.available_at is null or r.merge_until is not null)
      and r.waits_for is distinct from 'approval'
    where u.run_id = any(done)
      and not exists (select 1 from runs h where h.tenant_id = u.tenant_id and h.thread_id = u.thread_id and h.head)
    order by u.run_id, r.seq
  ), made as (
    update runs r
    set head = true
    from next n
    where r.tenant_id = n.tenant_id and r.run_id = n.run_id
    returning n.ended_id
  )
  select coalesce(array_agg(ended_id), '{}') into freed from made;

  update threads t
  set status = case
      when exists (
        select 1
        from runs r
        where r.tenant_id = u.tenant_id and r.thread_id = u.thread_id and r.status in ('pending', 'running')
          and r.waits_for is distinct from 'approval') then 'busy'
      when u.status = 'success' then 'idle'
      when u.error_code = 'graph_changed' and exists (
        select 1
        from approvals a
        where a.tenant_id = u.tenant_id and a.thread_id = u.thread_id and a.status = 'pending') then 'interrupted'
      else u.status end,
    updated_at = clock_timestamp(), state_updated_at = clock_timestamp()
  from unnest(tenant_ids, thread_ids, run_ids, statuses, error_codes) u(tenant_id, thread_id, run_id, status, error_code)
  where u.run_id = any(done) and t.tenant_id = u.tenant_id and t.thread_id = u.thread_id;

  return query
  select u.run_id,
    case when u.run_id = any(done) then 'done' when wait or u.run_id = any(free) then 'lost' else 'locked' end,
    -- Where runs are held back by limits, each that ends lets another start.
    u.run_id = any(freed) or limited or exists (
      select 1 from tenants t where t.tenant_id = u.tenant_id and t.max_running < 1000000)
  from unnest(tenant_ids, run_ids) u(tenant_id, run_id);
end
$settle$;
