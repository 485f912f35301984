-- What runs may spend, what they have spent, and what models cost.
-- Limits that differ from those in langgraph.json: of a run, of a thread, or of the tenant per day (ref_id is the tenant's).
create table budgets (
  tenant_id text collate "C" not null references tenants,
  scope text not null check (scope in ('run', 'thread', 'day')),
  ref_id text collate "C" not null,
  -- Null: no limit.
  max_cost numeric check (max_cost >= 0),
  max_tokens bigint check (max_tokens >= 0),
  max_steps int check (max_steps >= 0),
  max_active_ms bigint check (max_active_ms >= 0),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, scope, ref_id)
);

-- One row per call of a model by a run that has a budget: reserved before the call, settled by the commit that holds its answer.
-- What stays reserved when its attempt is over is in doubt, and counts as spent.
create table model_calls (
  tenant_id text collate "C" not null,
  run_id uuid not null,
  call_id uuid not null,
  -- Null: the thread is gone. What was spent today stays spent.
  thread_id uuid,
  attempt int not null,
  model text,
  status text not null default 'reserved' check (status in ('reserved', 'settled', 'released')),
  -- The estimate while it is reserved, then what it was.
  tokens bigint not null check (tokens >= 0),
  cost numeric not null check (cost >= 0),
  input_tokens bigint,
  output_tokens bigint,
  -- False: nobody has said what the model costs.
  priced boolean not null,
  day date not null default (clock_timestamp() at time zone 'utc')::date,
  created_at timestamptz not null default clock_timestamp(),
  settled_at timestamptz,
  primary key (tenant_id, run_id, call_id)
);
create index model_calls_thread on model_calls (tenant_id, thread_id);
create index model_calls_day on model_calls (tenant_id, day);
create index model_calls_gone on model_calls (day) where thread_id is null;

-- Per million tokens, in the currency that budgets are in; a model's longest prefix counts.
create table prices (
  tenant_id text collate "C" not null references tenants,
  model text collate "C" not null,
  input_cost numeric not null check (input_cost >= 0),
  output_cost numeric not null check (output_cost >= 0),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, model)
);
