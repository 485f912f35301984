-- What tools did outside, or may have done: one row per intent, written before the call, so that nobody does it twice.
create table effects (
  tenant_id text collate "C" not null,
  -- sha256 in hex over what makes the intent the same in each attempt: thread, message, call, tool, epoch.
  key text collate "C" not null check (key ~ '^(comp_)?[0-9a-f]{64}$'),
  thread_id uuid not null,
  -- Whose attempt moved it last: started by another than the one that looks means nobody knows what became of it.
  run_id uuid not null,
  attempt int not null,
  -- Unique per call: who wants to move it on names the call it saw.
  call_id uuid not null,
  tool text not null,
  -- Of the arguments as canonical JSON.
  args_hash bytea not null check (length(args_hash) = 32),
  -- none: nothing outside, only its result is kept. local: in this database, in one transaction with this row. undeclared: a call
  -- of a tool that doesn't say.
  kind text not null check (kind in ('none', 'local', 'remote', 'undeclared')),
  policy text not null check (policy in ('ask', 'lookup', 'retry', 'fail')),
  -- asked: waits for a person before its first call. unknown: called, and nobody knows whether it was done.
  status text not null check (status in ('asked', 'started', 'succeeded', 'failed', 'unknown')),
  attempts int not null default 0,
  epoch int not null default 0,
  -- The graph's task that it was called in.
  task text not null,
  -- The value it returned, as the codec writes it, until the mover has taken it into a pack.
  result bytea,
  error_code text,
  -- What was asked about it: {scope, at, open}. The texts are in the checkpoint.
  question jsonb,
  -- What settled a doubt: {by, how}.
  resolution jsonb,
  -- Set while or after it was undone: none of it counts as done then.
  compensated_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, key),
  foreign key (tenant_id, thread_id) references threads on delete cascade
);
create index effects_thread on effects (tenant_id, thread_id, created_at);
create index effects_run on effects (tenant_id, run_id);
