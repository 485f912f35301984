-- The claim: lock and claim in one server-side function, so that no client stands between them.
-- One claimer at a time, since limits can't hold otherwise: with SKIP LOCKED alone 12 of 12 rounds went over them (measured).
-- Shape: hop from tenant to tenant over the queue index (never over the queue), one round from where the last claim ended,
-- highest priority first, each tenant in turn; limits are counted from the running runs. Of ten that are claimed one is of each
-- less urgent priority that waits (`passed` counts), so that none starves and a backlog of one delays the others by little.
-- With each run comes what its worker needs to begin, as far as it is here: one round trip starts it.
-- A run with a pin is for workers of that version only: each graph is walked twice, for what any version may execute and for its own.
-- `graph_max` and `tenant_max` are what the worker's langgraph.json says; a row in the database wins over it.
create function claim_runs(
  slots int, owner text, lease_ms bigint, graphs text[], versions text[], graph_max int[], tenant_max int)
returns table (
  o_tenant_id text, o_run_id uuid, o_thread_id uuid, o_assistant_id uuid, o_graph_id text,
  o_attempt int, o_priority smallint, o_begun boolean, o_crashes int, o_metadata jsonb, o_request bytea,
  o_fresh boolean, o_provider text, o_cheaper boolean, o_budgeted boolean, o_conversation_id uuid,
  o_followup_id uuid, o_followup_part text)
-- jit off: an unanalysed queue looks expensive to the planner, and compiling this took 4 s for 2 ms of work (measured).
language plpgsql volatile set plan_cache_mode = force_generic_plan set jit = off as $claim$
#variable_conflict use_column
begin
  perform pg_advisory_xact_lock(7264861090);
  return query
  with recursive
  busy as materialized (
    select graph_id, tenant_id, count(*)::int as n from runs where status = 'running' group by 1, 2
  ),
  tenant_busy as materialized (
    select tenant_id, sum(n)::int as n from busy group by 1
  ),
  tenant_full as materialized (
    select b.tenant_id
    from tenant_busy b
    join tenants t using (tenant_id)
    where b.n >= coalesce(t.max_running, tenant_max, 1000000)
  ),
  graph_free as materialized (
    select g.graph_id, g.version, coalesce(l.max_running, g.configured, 1000000) - coalesce(b.n, 0) as free
    from unnest(graphs, graph_max, versions) g(graph_id, configured, version)
    left join graph_limits l using (graph_id)
    left join (select graph_id, sum(n)::int as n from busy group by 1) b using (graph_id)
    where coalesce(l.max_running, g.configured, 1000000) > coalesce(b.n, 0)
  ),
  -- Loose index scan: per priority, graph with room and pin, from tenant to tenant, starting after the cursor, once round.
  walk(priority, graph_id, pin, start, wrapped, tenant_id, ok, got) as (
    select c.priority, f.graph_id, p.pin, c.tenant_id, false, c.tenant_id, false, 0
    from claim_cursor c, graph_free f, unnest(array['', f.version]) p(pin)
    union all
    select w.priority, w.graph_id, w.pin, w.start, nx.wrapped, nx.tenant_id, fr.ok, w.got + fr.ok::int
    from walk w
    cross join lateral (
      (select r.tenant_id, w.wrapped as wrapped
        from runs r
        where r.status = 'pending' and r.head and r.available_at is null
          and r.priority = w.priority and r.graph_id = w.graph_id and r.pin = w.pin and r.tenant_id > w.tenant_id
        order by r.tenant_id
        limit 1)
      union all
      (select r.tenant_id, true
        from runs r
        where not w.wrapped and r.status = 'pending' and r.head and r.available_at is null
          and r.priority = w.priority and r.graph_id = w.graph_id and r.pin = w.pin and r.tenant_id > ''
        order by r.tenant_id
        limit 1)
      limit 1
    ) nx
    -- offset 0 keeps this a hashed subplan
    cross join lateral (select nx.tenant_id not in (select tenant_id from tenant_full) as ok offset 0) fr
    where w.got < slots and not (nx.wrapped and nx.tenant_id > w.start)
  ),
  candidate as materialized (
    select w.priority, w.graph_id, w.pin, w.tenant_id, coalesce(t.max_running, tenant_max, 1000000) - coalesce(b.n, 0) as free,
      (w.tenant_id <= w.start) as lap, h.run_id, h.seq,
      (select c.passed from claim_cursor c where c.priority = w.priority) as passed
    from (select * from walk where ok) w
    join graph_free g using (graph_id)
    join tenants t using (tenant_id)
    left join tenant_busy b using (tenant_id)
    cross join lateral (
      select r.run_id, r.seq
      from runs r
      where r.status = 'pending' and r.head and r.available_at is null
        and r.priority = w.priority and r.graph_id = w.graph_id and r.pin = w.pin and r.tenant_id = w.tenant_id
      order by r.seq
      limit least(slots, coalesce(t.max_running, tenant_max, 1000000) - coalesce(b.n, 0), g.free)
    ) h
  ),
  turned as (
    select *, row_number() over (partition by priority, tenant_id order by seq) as turn
    from candidate
  ),
  shared as (
    select *,
      priority > 0 and row_number() over (partition by priority order by turn, lap, tenant_id) <= (passed + slots) / 10 as owed
    from turned
  ),
  ranked as (
    select *, row_number() over (partition by tenant_id order by owed desc, priority, seq) as tenant_rank
    from shared
  ),
  within_tenant as (
    select ranked.*,
      row_number() over (
        partition by ranked.graph_id
        order by ranked.owed desc, ranked.priority, ranked.turn, ranked.lap, ranked.tenant_id) as graph_rank
    from ranked
    where tenant_rank <= free
  ),
  pick as materialized (
    select t.*
    from within_tenant t
    join graph_free g using (graph_id)
    where t.graph_rank <= g.free
    order by t.owed desc, t.priority, t.turn, t.lap, t.tenant_id
    limit slots
  ),
  locked as materialized (
    select r.tenant_id, r.run_id
    from runs r
    where (r.tenant_id, r.run_id, r.pin) in (select tenant_id, run_id, pin from pick)
      and r.status = 'pending' and r.head and r.available_at is null
    order by r.run_id
    for no key update skip locked
  ),
  claimed as (
    update runs r
    set status = 'running', attempt = r.attempt + 1, commit_no = 0, lease_owner = owner, waits_for = null,
      lease_expires_at = clock_timestamp() + lease_ms * interval '1 ms',
      started_at = coalesce(r.started_at, clock_timestamp()), updated_at = clock_timestamp(),
      agent_version = g.version, pin = case when r.stays then g.version else r.pin end
    from locked, graph_free g
    where r.tenant_id = locked.tenant_id and r.run_id = locked.run_id and g.graph_id = r.graph_id
    returning r.tenant_id, r.run_id, r.thread_id, r.assistant_id, r.graph_id, r.attempt, r.priority, r.begun, r.crashes,
      r.metadata, r.request, r.provider, r.cheaper, r.conversation_id, r.followup_id, r.followup_part
  ),
  logged as (
    insert into events (tenant_id, run_id, thread_id, attempt, type, payload)
    select tenant_id, run_id, thread_id, attempt, 'run.claimed', jsonb_build_object('owner', owner)
    from claimed
  ),
  moved_cursor as (
    update claim_cursor c
    set tenant_id = coalesce(x.tenant_id, c.tenant_id), passed = coalesce(s.passed, c.passed)
    from claim_cursor before
    left join (
      select distinct on (priority) priority, tenant_id
      from pick
      where turn = 1
      order by priority, lap desc, tenant_id desc
    ) x using (priority)
    left join (
      select w.priority, greatest(0, least(w.passed, 1000000)
        + (select count(*) from pick p where p.priority < w.priority)
        - 9 * (select count(*) from pick p where p.priority = w.priority))::int as passed
      from (select distinct priority, passed from candidate where priority > 0) w
    ) s using (priority)
    where c.priority = before.priority and (x.tenant_id <> c.tenant_id or s.passed <> c.passed)
  )
  select c.tenant_id, c.run_id, c.thread_id, c.assistant_id, c.graph_id, c.attempt, c.priority, c.begun, c.crashes,
    c.metadata, c.request,
    not exists (select 1 from checkpoints p where p.tenant_id = c.tenant_id and p.thread_id = c.thread_id),
    c.provider, c.cheaper,
    exists (
      select 1
      from budgets b
      where b.tenant_id = c.tenant_id
        and (b.scope, b.ref_id) in (('run', c.run_id::text), ('thread', c.thread_id::text), ('day', c.tenant_id))),
    c.conversation_id, c.followup_id, c.followup_part
  from claimed c;
end
$claim$;
