-- Who owns what, conversations, and their executions with the lease, queue and event columns.
create table tenants (
  tenant_id text collate "C" primary key check (tenant_id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
  -- Null: as the workers' langgraph.json says; 1000000: as many as there are slots.
  max_running int check (max_running >= 0),
  -- The most urgent its runs may be.
  best_priority smallint not null default 0 check (best_priority between 0 and 3),
  created_at timestamptz not null default now()
);
insert into tenants (tenant_id) values ('default');

-- A cap on runs of one graph at a time, over all tenants; without a row it is what the workers' langgraph.json says.
create table graph_limits (
  graph_id text collate "C" primary key,
  max_running int not null check (max_running >= 0)
);

-- Where the round-robin between tenants goes on, per priority, and how many more urgent runs were claimed while some of it waited.
-- Only the claimer writes it.
create table claim_cursor (
  priority smallint primary key,
  tenant_id text collate "C" not null default '',
  passed int not null default 0
) with (fillfactor = 10);
insert into claim_cursor (priority) values (0), (1), (2), (3);

create table assistants (
  tenant_id text collate "C" not null references tenants,
  assistant_id uuid not null,
  graph_id text collate "C" not null,
  name text not null,
  description text,
  version int not null default 1,
  -- Which code its runs are executed with: 'latest', 'own' (each stays with the version it began with), or a version.
  pin text collate "C" not null default 'latest' check (pin ~ '^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$'),
  config jsonb not null default '{}',
  context jsonb not null default '{}',
  metadata jsonb not null default '{}',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, assistant_id)
);
create index assistants_graph on assistants (tenant_id, graph_id);

create table threads (
  tenant_id text collate "C" not null references tenants,
  thread_id uuid not null,
  status text not null default 'idle' check (status in ('idle', 'busy', 'interrupted', 'error')),
  ephemeral boolean not null default false,
  metadata jsonb not null default '{}',
  config jsonb not null default '{}',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  state_updated_at timestamptz,
  primary key (tenant_id, thread_id)
);
create index threads_created on threads (tenant_id, created_at desc) where not ephemeral;
create index threads_metadata on threads using gin (metadata jsonb_path_ops);

-- What was deleted, so that nothing that is still on its way brings it back.
create table tombstones (
  tenant_id text collate "C" not null,
  thread_id uuid not null,
  deleted_at timestamptz not null default now(),
  primary key (tenant_id, thread_id)
);

create sequence run_seq;
create table runs (
  tenant_id text collate "C" not null,
  run_id uuid not null,
  thread_id uuid not null,
  assistant_id uuid not null,
  graph_id text collate "C" not null,
  kind text not null default 'run' check (kind in ('run', 'edit')),
  status text not null default 'pending'
    check (status in ('pending', 'running', 'interrupted', 'success', 'error', 'timeout')),
  priority smallint not null default 0 check (priority between 0 and 3),
  -- It goes on with what is there, and leaves the questions that are open open.
  resumes boolean not null default false,
  seq bigint not null default nextval('run_seq'),
  head boolean not null,
  attempt int not null default 0,
  crashes int not null default 0,
  -- Attempts in a row that ended with a retryable failure and without progress between them.
  failures int not null default 0,
  progress_attempt int not null default 0,
  -- Of a run that has crashed before: the last attempt that came to its graph, or died where nothing but the run can have killed it.
  entered_attempt int not null default 0,
  commit_no bigint not null default 0,
  begun boolean not null default false,
  lease_owner text,
  lease_expires_at timestamptz,
  available_at timestamptz,
  -- Until then messages that come on its thread become part of its input; it keeps its place in the thread's order meanwhile.
  merge_until timestamptz,
  -- How many requests did.
  merged int not null default 0,
  waits_for text check (waits_for in ('approval', 'timer', 'person', 'provider')),
  -- What the run waits for, or waited for last, and since when in vain.
  provider text collate "C",
  outage_since timestamptz,
  -- Its budget has room for a cheaper model only.
  cheaper boolean not null default false,
  -- What a person did about a run that ended in error.
  resolved text check (resolved in ('retried', 'closed')),
  resolved_by text,
  resolved_at timestamptz,
  resolved_run_id uuid,
  multitask_strategy text not null default 'enqueue',
  agent_version text,
  -- The only version that may execute it; empty: any.
  pin text collate "C" not null default '',
  -- The one that claims it first becomes its pin.
  stays boolean not null default false,
  metadata jsonb not null default '{}',
  request bytea,
  content_pack_id uuid,
  content_block int,
  content_moved_at timestamptz,
  -- The list of the run's messages in the object store: which, the one it follows, the checkpoint (seq) it reaches, and the
  -- one it has to reach since the last move. Null in manifest_seq asks for a new one.
  manifest_pack_id uuid,
  manifest_previous_id uuid,
  manifest_seq bigint,
  manifest_due_seq bigint,
  -- What the run was asked, how it failed and what it streamed was kept until then.
  content_expired_at timestamptz,
  error_code text,
  error_type text,
  error_preview text check (length(error_preview) <= 200),
  error bytea,
  cancel_reason text,
  result_checkpoint_id uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  started_at timestamptz,
  finished_at timestamptz,
  primary key (tenant_id, run_id),
  foreign key (tenant_id, thread_id) references threads on delete cascade,
  constraint runs_lease_when_running check (
    (status = 'running') = (lease_owner is not null) and (status = 'running') = (lease_expires_at is not null)),
  constraint runs_finished_when_done check ((status in ('pending', 'running')) = (finished_at is null)),
  constraint runs_head_unfinished check (not head or status in ('pending', 'running'))
) with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02);
-- The claim's only queue index; a backed-off or sleeping run leaves it by available_at, a timer brings it back.
create index runs_ready on runs (priority, graph_id, pin, tenant_id, seq)
  where status = 'pending' and head and available_at is null;
create index runs_running on runs (graph_id, tenant_id) where status = 'running';
create unique index runs_one_running on runs (tenant_id, thread_id) where status = 'running';
create unique index runs_one_head on runs (tenant_id, thread_id) where head;
create index runs_waiting on runs (tenant_id, thread_id, seq) where status = 'pending';
create index runs_manifest_due on runs (tenant_id, thread_id, seq)
  where manifest_due_seq is not null and manifest_due_seq is distinct from manifest_seq;
create index runs_not_expired on runs (tenant_id, finished_at) where finished_at is not null and content_expired_at is null;
create index runs_attention on runs (tenant_id, finished_at desc) where waits_for = 'person';
create index runs_out on runs (tenant_id, provider) where waits_for = 'provider';
create index runs_of_thread on runs (tenant_id, thread_id, seq desc);

-- The log of a run: append only, written by the transaction that makes the change.
create table events (
  tenant_id text collate "C" not null,
  run_id uuid not null,
  seq bigint generated always as identity,
  thread_id uuid not null,
  attempt int not null,
  type text not null,
  payload jsonb not null default '{}',
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, run_id, seq),
  foreign key (tenant_id, run_id) references runs on delete cascade
);

-- What runs call and can't be reached or is overloaded just now. While open_until is set nobody but one run at a time tries.
create table breakers (
  tenant_id text collate "C" not null references tenants,
  provider text collate "C" not null,
  failures int not null default 0,
  openings int not null default 0,
  open_until timestamptz,
  trial_run_id uuid,
  trial_until timestamptz,
  failed_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, provider)
);

-- What streams to clients, batched: one row holds the events first_id..last_id as JSON lines.
-- Ids of attempt n start at (n - 1) * 10^9.
create table stream_chunks (
  tenant_id text collate "C" not null,
  run_id uuid not null,
  first_id bigint not null,
  last_id bigint not null check (last_id >= first_id),
  lines text not null,
  created_at timestamptz not null default now(),
  primary key (tenant_id, run_id, first_id),
  foreign key (tenant_id, run_id) references runs on delete cascade
);
