-- Crons: runs that are made again and again at the times of a rule, as stock clients ask for them.
create table crons (
  tenant_id text collate "C" not null references tenants,
  cron_id uuid not null,
  assistant_id uuid not null,
  -- Null: each of its runs has a thread of its own, which goes with the run or stays.
  thread_id uuid,
  on_run_completed text not null check (on_run_completed in ('delete', 'keep')),
  schedule text not null,
  -- Null: UTC.
  time_zone text,
  end_time timestamptz,
  enabled boolean not null,
  metadata jsonb not null default '{}',
  user_id text,
  -- JSON, as it was asked for, and what its runs are made of: content.
  payload bytea not null,
  run bytea not null,
  -- Null: it has no next time, or is not enabled.
  next_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, cron_id),
  foreign key (tenant_id, thread_id) references threads on delete cascade,
  constraint crons_next check (enabled or next_at is null)
);
create index crons_newest on crons (tenant_id, created_at desc);
create index crons_thread on crons (tenant_id, thread_id) where thread_id is not null;

-- The times of a cron: the run of each, or why it has none. One row, so one run, for a time.
create table cron_firings (
  tenant_id text collate "C" not null,
  cron_id uuid not null,
  occurrence_at timestamptz not null,
  -- missed: nobody could look at its time. skipped: it was looked at, and couldn't be.
  status text not null check (status in ('fired', 'missed', 'skipped')),
  reason text,
  -- Times that this row stands for: those missed in a row have one.
  times int not null default 1,
  run_id uuid,
  thread_id uuid,
  -- Its run may still take a slot.
  is_open boolean not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, cron_id, occurrence_at),
  constraint cron_firings_run check ((status = 'fired') = (run_id is not null)),
  -- What has fired stays known as long as its run goes on, also when the cron is deleted.
  constraint cron_firings_open check (status = 'fired' or not is_open)
);
create index cron_firings_open on cron_firings (tenant_id) where is_open;
create index cron_firings_old on cron_firings (created_at) where not is_open;
