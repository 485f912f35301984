-- What the migrations make. Refresh with: npx vitest run test/db/schema.test.ts -u

table approval_votes
  tenant_id text collate "C" not null
  approval_id uuid not null
  person text not null
  decision text
  answer_sha256 bytea not null
  voted_at timestamp with time zone not null default clock_timestamp()
  constraint approval_votes_pkey PRIMARY KEY (tenant_id, approval_id, person)
  constraint approval_votes_tenant_id_approval_id_fkey FOREIGN KEY (tenant_id, approval_id) REFERENCES approvals(tenant_id, approval_id) ON DELETE CASCADE

table approvals
  tenant_id text collate "C" not null
  approval_id uuid not null
  thread_id uuid not null
  run_id uuid not null
  checkpoint_id uuid
  interrupt_id text not null
  node text
  form text not null default 'other'::text
  actions integer not null default 1
  policy jsonb not null default '{}'::jsonb
  deadline_at timestamp with time zone
  reminded_at timestamp with time zone
  escalated_at timestamp with time zone
  status text not null default 'pending'::text
  asked_at timestamp with time zone not null default clock_timestamp()
  decided_at timestamp with time zone
  decided_by text
  decided_run_id uuid
  decision text
  withdrawn_reason text
  constraint approvals_decided CHECK (((status = 'pending'::text) = (decided_at IS NULL)))
  constraint approvals_form_check CHECK ((form = ANY (ARRAY['langchain'::text, 'agent_inbox'::text, 'approve'::text, 'other'::text])))
  constraint approvals_pkey PRIMARY KEY (tenant_id, approval_id)
  constraint approvals_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'decided'::text, 'withdrawn'::text])))
  constraint approvals_tenant_id_thread_id_fkey FOREIGN KEY (tenant_id, thread_id) REFERENCES threads(tenant_id, thread_id) ON DELETE CASCADE
  CREATE INDEX approvals_pending ON perdure.approvals USING btree (tenant_id, asked_at) WHERE (status = 'pending'::text)
  CREATE INDEX approvals_thread ON perdure.approvals USING btree (tenant_id, thread_id, asked_at DESC)
  CREATE UNIQUE INDEX approvals_one_pending ON perdure.approvals USING btree (tenant_id, thread_id, interrupt_id) WHERE (status = 'pending'::text)

table assistants
  tenant_id text collate "C" not null
  assistant_id uuid not null
  graph_id text collate "C" not null
  name text not null
  description text
  version integer not null default 1
  pin text collate "C" not null default 'latest'::text
  config jsonb not null default '{}'::jsonb
  context jsonb not null default '{}'::jsonb
  metadata jsonb not null default '{}'::jsonb
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  constraint assistants_pin_check CHECK ((pin ~ '^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$'::text))
  constraint assistants_pkey PRIMARY KEY (tenant_id, assistant_id)
  constraint assistants_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id)
  CREATE INDEX assistants_graph ON perdure.assistants USING btree (tenant_id, graph_id)

table breakers
  tenant_id text collate "C" not null
  provider text collate "C" not null
  failures integer not null default 0
  openings integer not null default 0
  open_until timestamp with time zone
  trial_run_id uuid
  trial_until timestamp with time zone
  failed_at timestamp with time zone not null default clock_timestamp()
  constraint breakers_pkey PRIMARY KEY (tenant_id, provider)
  constraint breakers_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id)

table budgets
  tenant_id text collate "C" not null
  scope text not null
  ref_id text collate "C" not null
  max_cost numeric
  max_tokens bigint
  max_steps integer
  max_active_ms bigint
  updated_at timestamp with time zone not null default clock_timestamp()
  constraint budgets_max_active_ms_check CHECK ((max_active_ms >= 0))
  constraint budgets_max_cost_check CHECK ((max_cost >= (0)::numeric))
  constraint budgets_max_steps_check CHECK ((max_steps >= 0))
  constraint budgets_max_tokens_check CHECK ((max_tokens >= 0))
  constraint budgets_pkey PRIMARY KEY (tenant_id, scope, ref_id)
  constraint budgets_scope_check CHECK ((scope = ANY (ARRAY['run'::text, 'thread'::text, 'day'::text])))
  constraint budgets_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id)

table channel_versions
  tenant_id text collate "C" not null
  thread_id uuid not null
  ns text collate "C" not null
  channel text not null
  version text collate "C" not null
  data bytea
  refs bytea[]
  constraint channel_versions_pkey PRIMARY KEY (tenant_id, thread_id, ns, channel, version)

table checkpoint_writes
  tenant_id text collate "C" not null
  thread_id uuid not null
  ns text collate "C" not null
  checkpoint_id uuid not null
  task_id text collate "C" not null
  idx integer not null
  task_path text collate "C" not null default ''::text
  channel text not null
  run_id uuid
  attempt integer
  data bytea not null
  refs bytea[]
  created_at timestamp with time zone not null default now()
  constraint checkpoint_writes_pkey PRIMARY KEY (tenant_id, thread_id, ns, checkpoint_id, task_id, idx)

table checkpoints
  tenant_id text collate "C" not null
  thread_id uuid not null
  ns text collate "C" not null
  checkpoint_id uuid not null
  parent_id uuid
  run_id uuid
  attempt integer
  seq bigint not null generated always as identity
  step integer
  source text
  metadata jsonb not null default '{}'::jsonb
  channels text[]
  versions text[]
  head bytea
  pack_id uuid
  block integer
  written_by uuid[]
  delta_channels text[]
  created_at timestamp with time zone not null default now()
  constraint checkpoints_here_or_moved CHECK (((head IS NOT NULL) OR ((pack_id IS NOT NULL) AND (block IS NOT NULL))))
  constraint checkpoints_pkey PRIMARY KEY (tenant_id, thread_id, ns, checkpoint_id)
  constraint checkpoints_tenant_id_pack_id_fkey FOREIGN KEY (tenant_id, pack_id) REFERENCES packs(tenant_id, pack_id)
  CREATE INDEX checkpoints_newest ON perdure.checkpoints USING btree (tenant_id, thread_id, ns, seq DESC)
  CREATE INDEX checkpoints_pack ON perdure.checkpoints USING btree (tenant_id, pack_id) WHERE (pack_id IS NOT NULL)
  CREATE INDEX checkpoints_run ON perdure.checkpoints USING btree (tenant_id, run_id, seq DESC) WHERE (run_id IS NOT NULL)
  CREATE INDEX checkpoints_unmoved ON perdure.checkpoints USING btree (tenant_id, thread_id) WHERE (head IS NOT NULL)

table claim_cursor with (fillfactor=10)
  priority smallint not null
  tenant_id text collate "C" not null default ''::text
  passed integer not null default 0
  constraint claim_cursor_pkey PRIMARY KEY (priority)

table effects
  tenant_id text collate "C" not null
  key text collate "C" not null
  thread_id uuid not null
  run_id uuid not null
  attempt integer not null
  call_id uuid not null
  tool text not null
  args_hash bytea not null
  kind text not null
  policy text not null
  status text not null
  attempts integer not null default 0
  epoch integer not null default 0
  task text not null
  result bytea
  error_code text
  question jsonb
  resolution jsonb
  compensated_at timestamp with time zone
  created_at timestamp with time zone not null default clock_timestamp()
  updated_at timestamp with time zone not null default clock_timestamp()
  constraint effects_args_hash_check CHECK ((length(args_hash) = 32))
  constraint effects_key_check CHECK ((key ~ '^(comp_)?[0-9a-f]{64}$'::text))
  constraint effects_kind_check CHECK ((kind = ANY (ARRAY['none'::text, 'local'::text, 'remote'::text, 'undeclared'::text])))
  constraint effects_pkey PRIMARY KEY (tenant_id, key)
  constraint effects_policy_check CHECK ((policy = ANY (ARRAY['ask'::text, 'lookup'::text, 'retry'::text, 'fail'::text])))
  constraint effects_status_check CHECK ((status = ANY (ARRAY['asked'::text, 'started'::text, 'succeeded'::text, 'failed'::text, 'unknown'::text])))
  constraint effects_tenant_id_thread_id_fkey FOREIGN KEY (tenant_id, thread_id) REFERENCES threads(tenant_id, thread_id) ON DELETE CASCADE
  CREATE INDEX effects_run ON perdure.effects USING btree (tenant_id, run_id)
  CREATE INDEX effects_thread ON perdure.effects USING btree (tenant_id, thread_id, created_at)

table events
  tenant_id text collate "C" not null
  run_id uuid not null
  seq bigint not null generated always as identity
  thread_id uuid not null
  attempt integer not null
  type text not null
  payload jsonb not null default '{}'::jsonb
  created_at timestamp with time zone not null default clock_timestamp()
  constraint events_pkey PRIMARY KEY (tenant_id, run_id, seq)
  constraint events_tenant_id_run_id_fkey FOREIGN KEY (tenant_id, run_id) REFERENCES runs(tenant_id, run_id) ON DELETE CASCADE

table graph_limits
  graph_id text collate "C" not null
  max_running integer not null
  constraint graph_limits_max_running_check CHECK ((max_running >= 0))
  constraint graph_limits_pkey PRIMARY KEY (graph_id)

table idempotency_keys
  tenant_id text collate "C" not null
  key_sha256 bytea not null
  request_sha256 bytea not null
  made_id uuid not null
  created_at timestamp with time zone not null default clock_timestamp()
  constraint idempotency_keys_key_sha256_check CHECK ((length(key_sha256) = 32))
  constraint idempotency_keys_pkey PRIMARY KEY (tenant_id, key_sha256)
  constraint idempotency_keys_request_sha256_check CHECK ((length(request_sha256) = 32))
  CREATE INDEX idempotency_keys_age ON perdure.idempotency_keys USING btree (created_at)

table migrations
  version integer not null
  name text not null
  breaking boolean not null
  applied_at timestamp with time zone not null default now()
  constraint migrations_pkey PRIMARY KEY (version)

table model_calls
  tenant_id text collate "C" not null
  run_id uuid not null
  call_id uuid not null
  thread_id uuid
  attempt integer not null
  model text
  status text not null default 'reserved'::text
  tokens bigint not null
  cost numeric not null
  input_tokens bigint
  output_tokens bigint
  priced boolean not null
  day date not null default ((clock_timestamp() AT TIME ZONE 'utc'::text))::date
  created_at timestamp with time zone not null default clock_timestamp()
  settled_at timestamp with time zone
  constraint model_calls_cost_check CHECK ((cost >= (0)::numeric))
  constraint model_calls_pkey PRIMARY KEY (tenant_id, run_id, call_id)
  constraint model_calls_status_check CHECK ((status = ANY (ARRAY['reserved'::text, 'settled'::text, 'released'::text])))
  constraint model_calls_tokens_check CHECK ((tokens >= 0))
  CREATE INDEX model_calls_day ON perdure.model_calls USING btree (tenant_id, day)
  CREATE INDEX model_calls_gone ON perdure.model_calls USING btree (day) WHERE (thread_id IS NULL)
  CREATE INDEX model_calls_thread ON perdure.model_calls USING btree (tenant_id, thread_id)

table packs
  tenant_id text collate "C" not null
  pack_id uuid not null
  thread_id uuid not null
  kind text not null
  status text not null default 'pending'::text
  delete_after timestamp with time zone
  key text not null
  bytes bigint
  body_kind smallint
  entries integer
  block_offsets bigint[] not null default '{}'::bigint[]
  block_hashes bytea[] not null default '{}'::bytea[]
  bodies bytea[] not null default '{}'::bytea[]
  body_blocks integer[] not null default '{}'::integer[]
  created_at timestamp with time zone not null default now()
  constraint packs_body_kind_check CHECK ((body_kind = ANY (ARRAY[0, 1, 2])))
  constraint packs_check CHECK (starts_with(key, (((tenant_id || '/'::text) || (thread_id)::text) || '/'::text)))
  constraint packs_check1 CHECK ((cardinality(body_blocks) = cardinality(bodies)))
  constraint packs_kind_check CHECK ((kind = ANY (ARRAY['pack'::text, 'object'::text, 'manifest'::text])))
  constraint packs_pkey PRIMARY KEY (tenant_id, pack_id)
  constraint packs_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'stored'::text, 'doomed'::text])))
  CREATE INDEX packs_not_stored ON perdure.packs USING btree (created_at) WHERE (status <> 'stored'::text)
  CREATE INDEX packs_thread ON perdure.packs USING btree (tenant_id, thread_id)

table prices
  tenant_id text collate "C" not null
  model text collate "C" not null
  input_cost numeric not null
  output_cost numeric not null
  updated_at timestamp with time zone not null default clock_timestamp()
  constraint prices_input_cost_check CHECK ((input_cost >= (0)::numeric))
  constraint prices_output_cost_check CHECK ((output_cost >= (0)::numeric))
  constraint prices_pkey PRIMARY KEY (tenant_id, model)
  constraint prices_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id)

table runs with (fillfactor=85, autovacuum_vacuum_scale_factor=0.02)
  tenant_id text collate "C" not null
  run_id uuid not null
  thread_id uuid not null
  assistant_id uuid not null
  graph_id text collate "C" not null
  kind text not null default 'run'::text
  status text not null default 'pending'::text
  priority smallint not null default 0
  resumes boolean not null default false
  seq bigint not null default nextval('run_seq'::regclass)
  head boolean not null
  attempt integer not null default 0
  crashes integer not null default 0
  failures integer not null default 0
  progress_attempt integer not null default 0
  entered_attempt integer not null default 0
  commit_no bigint not null default 0
  begun boolean not null default false
  lease_owner text
  lease_expires_at timestamp with time zone
  available_at timestamp with time zone
  merge_until timestamp with time zone
  merged integer not null default 0
  waits_for text
  provider text collate "C"
  outage_since timestamp with time zone
  cheaper boolean not null default false
  resolved text
  resolved_by text
  resolved_at timestamp with time zone
  resolved_run_id uuid
  multitask_strategy text not null default 'enqueue'::text
  agent_version text
  pin text collate "C" not null default ''::text
  stays boolean not null default false
  metadata jsonb not null default '{}'::jsonb
  request bytea
  content_pack_id uuid
  content_block integer
  content_moved_at timestamp with time zone
  manifest_pack_id uuid
  manifest_previous_id uuid
  manifest_seq bigint
  manifest_due_seq bigint
  content_expired_at timestamp with time zone
  error_code text
  error_type text
  error_preview text
  error bytea
  cancel_reason text
  result_checkpoint_id uuid
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  started_at timestamp with time zone
  finished_at timestamp with time zone
  constraint runs_error_preview_check CHECK ((length(error_preview) <= 200))
  constraint runs_finished_when_done CHECK (((status = ANY (ARRAY['pending'::text, 'running'::text])) = (finished_at IS NULL)))
  constraint runs_head_unfinished CHECK (((NOT head) OR (status = ANY (ARRAY['pending'::text, 'running'::text]))))
  constraint runs_kind_check CHECK ((kind = ANY (ARRAY['run'::text, 'edit'::text])))
  constraint runs_lease_when_running CHECK ((((status = 'running'::text) = (lease_owner IS NOT NULL)) AND ((status = 'running'::text) = (lease_expires_at IS NOT NULL))))
  constraint runs_pkey PRIMARY KEY (tenant_id, run_id)
  constraint runs_priority_check CHECK (((priority >= 0) AND (priority <= 3)))
  constraint runs_resolved_check CHECK ((resolved = ANY (ARRAY['retried'::text, 'closed'::text])))
  constraint runs_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'running'::text, 'interrupted'::text, 'success'::text, 'error'::text, 'timeout'::text])))
  constraint runs_tenant_id_thread_id_fkey FOREIGN KEY (tenant_id, thread_id) REFERENCES threads(tenant_id, thread_id) ON DELETE CASCADE
  constraint runs_waits_for_check CHECK ((waits_for = ANY (ARRAY['approval'::text, 'timer'::text, 'person'::text, 'provider'::text])))
  CREATE INDEX runs_attention ON perdure.runs USING btree (tenant_id, finished_at DESC) WHERE (waits_for = 'person'::text)
  CREATE INDEX runs_manifest_due ON perdure.runs USING btree (tenant_id, thread_id, seq) WHERE ((manifest_due_seq IS NOT NULL) AND (manifest_due_seq IS DISTINCT FROM manifest_seq))
  CREATE INDEX runs_not_expired ON perdure.runs USING btree (tenant_id, finished_at) WHERE ((finished_at IS NOT NULL) AND (content_expired_at IS NULL))
  CREATE INDEX runs_of_thread ON perdure.runs USING btree (tenant_id, thread_id, seq DESC)
  CREATE INDEX runs_out ON perdure.runs USING btree (tenant_id, provider) WHERE (waits_for = 'provider'::text)
  CREATE INDEX runs_ready ON perdure.runs USING btree (priority, graph_id, pin, tenant_id, seq) WHERE ((status = 'pending'::text) AND head AND (available_at IS NULL))
  CREATE INDEX runs_running ON perdure.runs USING btree (graph_id, tenant_id) WHERE (status = 'running'::text)
  CREATE INDEX runs_waiting ON perdure.runs USING btree (tenant_id, thread_id, seq) WHERE (status = 'pending'::text)
  CREATE UNIQUE INDEX runs_one_head ON perdure.runs USING btree (tenant_id, thread_id) WHERE head
  CREATE UNIQUE INDEX runs_one_running ON perdure.runs USING btree (tenant_id, thread_id) WHERE (status = 'running'::text)

table staged_bodies
  tenant_id text collate "C" not null
  thread_id uuid not null
  hash bytea not null
  kind smallint not null
  refs bytea[]
  data bytea not null
  created_at timestamp with time zone not null default now()
  constraint staged_bodies_hash_check CHECK ((length(hash) = 32))
  constraint staged_bodies_kind_check CHECK ((kind = ANY (ARRAY[0, 1, 2])))
  constraint staged_bodies_pkey PRIMARY KEY (tenant_id, thread_id, hash)

table stream_chunks
  tenant_id text collate "C" not null
  run_id uuid not null
  first_id bigint not null
  last_id bigint not null
  lines text not null
  created_at timestamp with time zone not null default now()
  constraint stream_chunks_check CHECK ((last_id >= first_id))
  constraint stream_chunks_pkey PRIMARY KEY (tenant_id, run_id, first_id)
  constraint stream_chunks_tenant_id_run_id_fkey FOREIGN KEY (tenant_id, run_id) REFERENCES runs(tenant_id, run_id) ON DELETE CASCADE

table tenants
  tenant_id text collate "C" not null
  max_running integer
  best_priority smallint not null default 0
  created_at timestamp with time zone not null default now()
  constraint tenants_best_priority_check CHECK (((best_priority >= 0) AND (best_priority <= 3)))
  constraint tenants_max_running_check CHECK ((max_running >= 0))
  constraint tenants_pkey PRIMARY KEY (tenant_id)
  constraint tenants_tenant_id_check CHECK ((tenant_id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'::text))

table threads
  tenant_id text collate "C" not null
  thread_id uuid not null
  status text not null default 'idle'::text
  ephemeral boolean not null default false
  metadata jsonb not null default '{}'::jsonb
  config jsonb not null default '{}'::jsonb
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  state_updated_at timestamp with time zone
  constraint threads_pkey PRIMARY KEY (tenant_id, thread_id)
  constraint threads_status_check CHECK ((status = ANY (ARRAY['idle'::text, 'busy'::text, 'interrupted'::text, 'error'::text])))
  constraint threads_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id)
  CREATE INDEX threads_created ON perdure.threads USING btree (tenant_id, created_at DESC) WHERE (NOT ephemeral)
  CREATE INDEX threads_metadata ON perdure.threads USING gin (metadata jsonb_path_ops)

table timers
  tenant_id text collate "C" not null
  timer_id uuid not null
  kind text not null
  ref_id uuid not null
  status text not null default 'due'::text
  due_at timestamp with time zone not null
  attempts integer not null default 0
  last_error text
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  constraint timers_pkey PRIMARY KEY (tenant_id, timer_id)
  constraint timers_status_check CHECK ((status = ANY (ARRAY['due'::text, 'fired'::text, 'cancelled'::text])))
  CREATE INDEX timers_due ON perdure.timers USING btree (kind, due_at, timer_id) WHERE (status = 'due'::text)
  CREATE UNIQUE INDEX timers_one_due ON perdure.timers USING btree (tenant_id, kind, ref_id) WHERE (status = 'due'::text)

table tombstones
  tenant_id text collate "C" not null
  thread_id uuid not null
  deleted_at timestamp with time zone not null default now()
  constraint tombstones_pkey PRIMARY KEY (tenant_id, thread_id)

sequence run_seq

CREATE OR REPLACE FUNCTION perdure.claim_runs(slots integer, owner text, lease_ms bigint, graphs text[], versions text[], graph_max integer[], tenant_max integer)
 RETURNS TABLE(o_tenant_id text, o_run_id uuid, o_thread_id uuid, o_assistant_id uuid, o_graph_id text, o_attempt integer, o_priority smallint, o_begun boolean, o_crashes integer, o_metadata jsonb, o_request bytea, o_fresh boolean, o_provider text, o_cheaper boolean, o_budgeted boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
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
      r.metadata, r.request, r.provider, r.cheaper
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
        and (b.scope, b.ref_id) in (('run', c.run_id::text), ('thread', c.thread_id::text), ('day', c.tenant_id)))
  from claimed c;
end
$function$


CREATE OR REPLACE FUNCTION perdure.follow_pin(tenant text, assistant uuid, after uuid, most integer, OUT moved integer, OUT held integer, OUT last uuid)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  said text := pin_said(tenant, assistant);
  found uuid[];
  free uuid[];
begin
  found := array(select o.thread_id from off_pin(tenant, assistant, said, after, most) o);
  free := array(
    select t.thread_id
    from threads t
    where t.tenant_id = tenant and t.thread_id = any(found)
    order by t.thread_id
    for no key update skip locked);
  with locked as materialized (
    select r.tenant_id, r.run_id
    from runs r
    where r.tenant_id = tenant and r.thread_id = any(free) and r.status in ('pending', 'running')
      and r.assistant_id = assistant and r.kind = 'run' and is_off_pin(r.pin, r.stays, said)
    order by r.run_id
    for no key update
  )
  update runs r
  set stays = said = 'own',
    pin = case
      when said = 'latest' then ''
      when said <> 'own' then said
      when r.attempt > 0 then coalesce(r.agent_version, '')
      when r.resumes then last_version(r.tenant_id, r.thread_id)
      else ''
    end
  from locked
  where r.tenant_id = locked.tenant_id and r.run_id = locked.run_id;
  get diagnostics moved = row_count;
  held := cardinality(found) - cardinality(free);
  last := case when cardinality(found) = most then found[most] end;
end
$function$


CREATE OR REPLACE FUNCTION perdure.is_off_pin(pin text, stays boolean, said text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  select stays <> (said = 'own') or said <> 'own' and pin <> case when said = 'latest' then '' else said end
$function$


CREATE OR REPLACE FUNCTION perdure.last_version(tenant text, thread uuid)
 RETURNS text
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce((
    select r.agent_version
    from runs r
    where r.tenant_id = tenant and r.thread_id = thread and r.agent_version is not null
    order by r.seq desc
    limit 1), '')
$function$


CREATE OR REPLACE FUNCTION perdure.off_pin(tenant text, assistant uuid, said text, after uuid, most integer)
 RETURNS TABLE(thread_id uuid)
 LANGUAGE sql
 STABLE
AS $function$
  (select r.thread_id
    from runs r
    where r.tenant_id = tenant and r.status = 'pending' and r.thread_id > after
      and r.assistant_id = assistant and r.kind = 'run' and is_off_pin(r.pin, r.stays, said)
    order by r.thread_id
    limit most)
  union
  (select r.thread_id
    from runs r
    where r.tenant_id = tenant and r.status = 'running' and r.thread_id > after
      and r.assistant_id = assistant and r.kind = 'run' and is_off_pin(r.pin, r.stays, said)
    order by r.thread_id
    limit most)
  order by 1
  limit most
$function$


CREATE OR REPLACE FUNCTION perdure.pin_followed(tenant text, assistant uuid)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  said text := pin_said(tenant, assistant);
begin
  return not exists (
    select 1 from off_pin(tenant, assistant, said, '00000000-0000-0000-0000-000000000000', 1));
end
$function$


CREATE OR REPLACE FUNCTION perdure.pin_lock(tenant text, assistant uuid)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$ select hashtextextended(tenant || ' ' || assistant::text, 7264861091) $function$


CREATE OR REPLACE FUNCTION perdure.pin_said(tenant text, assistant uuid)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_advisory_xact_lock_shared(pin_lock(tenant, assistant));
  return coalesce(
    (select a.pin from assistants a where a.tenant_id = tenant and a.assistant_id = assistant), 'latest');
end
$function$


CREATE OR REPLACE FUNCTION perdure.run_pin(tenant text, assistant uuid, thread uuid, goes_on boolean, OUT pin text, OUT stays boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  said text := pin_said(tenant, assistant);
begin
  stays := said = 'own';
  pin := case when said = 'latest' then '' when not stays then said when goes_on then last_version(tenant, thread) else '' end;
end
$function$


CREATE OR REPLACE FUNCTION perdure.settle_runs(owner text, wait boolean, move_after_ms double precision, keep_ephemeral_ms double precision, tenant_ids text[], thread_ids uuid[], run_ids uuid[], attempts integer[], statuses text[], waits text[], checkpoint_ids uuid[], wake_ats timestamp with time zone[], error_codes text[], error_types text[], error_previews text[], errors bytea[], first_ids bigint[], last_ids bigint[], lines text[], questions text[])
 RETURNS TABLE(o_run_id uuid, o_how text, o_freed boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
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
  set waits_for = case when u.holds then 'approval' when r.available_at is not null then 'timer' end
  from (
    select tenant_id, thread_id, exists (
      select 1
      from approvals a
      where a.tenant_id = e.tenant_id and a.thread_id = e.thread_id and a.status = 'pending'
        and a.policy ->> 'on_message' = 'queue') as holds
    from unnest(tenant_ids, thread_ids, run_ids) e(tenant_id, thread_id, run_id)
    where e.run_id = any(done)
  ) u
  where r.tenant_id = u.tenant_id and r.thread_id = u.thread_id and r.status = 'pending' and not r.head
    and r.kind = 'run' and not r.resumes and (r.available_at is null or r.merge_until is not null)
    and u.holds = (r.waits_for is distinct from 'approval');

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
$function$


view bodies as SELECT p.tenant_id,
    p.thread_id,
    b.hash,
    p.pack_id,
    b.block
   FROM (packs p
     CROSS JOIN LATERAL UNNEST(p.bodies, p.body_blocks) b(hash, block))
  WHERE (p.status = 'stored'::text);
