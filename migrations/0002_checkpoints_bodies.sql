-- LangGraph's state: checkpoints, channel values and writes, with the bodies they name, staged or moved.
create table packs (
  tenant_id text collate "C" not null,
  pack_id uuid not null,
  thread_id uuid not null,
  -- pack: many bodies and records. object: one large body. manifest: the list of a run's messages.
  kind text not null check (kind in ('pack', 'object', 'manifest')),
  -- pending: an upload may be on its way. doomed: nothing points to it, and nothing can any more; its object goes.
  status text not null default 'pending' check (status in ('pending', 'stored', 'doomed')),
  -- Of a doomed one: its object stays so long for readers that were on their way to it.
  delete_after timestamptz,
  -- No row leads to what belongs to another thread, let alone another tenant.
  key text not null check (starts_with(key, tenant_id || '/' || thread_id::text || '/')),
  bytes bigint,
  -- Of an object: what its bytes are, as in staged_bodies.
  body_kind smallint check (body_kind in (0, 1, 2)),
  -- How many bodies, checkpoints and runs it was written with.
  entries int,
  -- Block i is the bytes [offsets[i], offsets[i + 1]) with the sha256 hashes[i].
  block_offsets bigint[] not null default '{}',
  block_hashes bytea[] not null default '{}',
  -- The bodies of it that are in use, as hashes, and the block of each.
  bodies bytea[] not null default '{}',
  body_blocks int[] not null default '{}' check (cardinality(body_blocks) = cardinality(bodies)),
  created_at timestamptz not null default now(),
  primary key (tenant_id, pack_id)
);
create index packs_thread on packs (tenant_id, thread_id);
create index packs_not_stored on packs (created_at) where status <> 'stored';

-- A body still in Postgres: kind 0 text, 1 JSON node, 2 bytes; refs are the nodes it names.
create table staged_bodies (
  tenant_id text collate "C" not null,
  thread_id uuid not null,
  hash bytea not null check (length(hash) = 32),
  kind smallint not null check (kind in (0, 1, 2)),
  refs bytea[],
  data bytea not null,
  created_at timestamptz not null default now(),
  primary key (tenant_id, thread_id, hash)
);
-- The bodies in the object store: which pack, which block of it. A row per body would be most of what a thread keeps here.
create view bodies as
  select p.tenant_id, p.thread_id, b.hash, p.pack_id, b.block
  from packs p
  cross join lateral unnest(p.bodies, p.body_blocks) as b(hash, block)
  where p.status = 'stored';

-- Newest means largest seq, never largest id: ids carry the clock of the machine that made them.
create table checkpoints (
  tenant_id text collate "C" not null,
  thread_id uuid not null,
  ns text collate "C" not null,
  checkpoint_id uuid not null,
  parent_id uuid,
  run_id uuid,
  attempt int,
  seq bigint generated always as identity,
  step int,
  source text,
  metadata jsonb not null default '{}',
  channels text[],
  versions text[],
  head bytea,
  -- Beside a head: it was put again after its move. Of the record count its writes, and values that are nowhere else.
  pack_id uuid,
  block int,
  -- Runs, other than its own, whose writes in the record count. One that was rolled back isn't among them any more.
  written_by uuid[],
  -- Not null: it was pruned, and only these channels of it are kept, for the descendants that are rebuilt from them.
  delta_channels text[],
  created_at timestamptz not null default now(),
  primary key (tenant_id, thread_id, ns, checkpoint_id),
  foreign key (tenant_id, pack_id) references packs,
  constraint checkpoints_here_or_moved check (head is not null or (pack_id is not null and block is not null))
);
create index checkpoints_newest on checkpoints (tenant_id, thread_id, ns, seq desc);
create index checkpoints_run on checkpoints (tenant_id, run_id, seq desc) where run_id is not null;
create index checkpoints_pack on checkpoints (tenant_id, pack_id) where pack_id is not null;
create index checkpoints_unmoved on checkpoints (tenant_id, thread_id) where head is not null;

-- A version is unique per write, so that two branches never share a row. No data: the channel is empty.
create table channel_versions (
  tenant_id text collate "C" not null,
  thread_id uuid not null,
  ns text collate "C" not null,
  channel text not null,
  version text collate "C" not null,
  data bytea,
  refs bytea[],
  primary key (tenant_id, thread_id, ns, channel, version)
);

-- No foreign key to checkpoints: a write may arrive before the checkpoint it belongs to.
create table checkpoint_writes (
  tenant_id text collate "C" not null,
  thread_id uuid not null,
  ns text collate "C" not null,
  checkpoint_id uuid not null,
  task_id text collate "C" not null,
  idx int not null,
  task_path text collate "C" not null default '',
  channel text not null,
  run_id uuid,
  attempt int,
  data bytea not null,
  refs bytea[],
  created_at timestamptz not null default now(),
  primary key (tenant_id, thread_id, ns, checkpoint_id, task_id, idx)
);
