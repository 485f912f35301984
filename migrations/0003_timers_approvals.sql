-- The scheduler table, and the questions that wait for a person.
-- What must happen at a time is one row; ref_id says to what, kind says what.
create table timers (
  tenant_id text collate "C" not null,
  timer_id uuid not null,
  kind text not null,
  ref_id uuid not null,
  status text not null default 'due' check (status in ('due', 'fired', 'cancelled')),
  due_at timestamptz not null,
  attempts int not null default 0,
  last_error text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, timer_id)
);
create index timers_due on timers (kind, due_at, timer_id) where status = 'due';
create unique index timers_one_due on timers (tenant_id, kind, ref_id) where status = 'due';

-- For triggers: a timer that is due at once, unless one of its kind is.
create function set_due_timer(of_tenant text, of_kind text, of_ref uuid) returns void
language sql volatile as $due$
  insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
  values (of_tenant, gen_random_uuid(), of_kind, of_ref, clock_timestamp())
  on conflict (tenant_id, kind, ref_id) where status = 'due' do nothing;
$due$;

create table approvals (
  tenant_id text collate "C" not null,
  approval_id uuid not null,
  thread_id uuid not null,
  run_id uuid not null,
  checkpoint_id uuid,
  interrupt_id text not null,
  node text,
  -- In which shape it was asked, and about how many actions: an answer has a decision for each.
  form text not null default 'other' check (form in ('langchain', 'agent_inbox', 'approve', 'other')),
  actions int not null default 1,
  -- Who may decide, until when, and what then: {deciders, at_least, deadline_ms, on_deadline, remind_ms, escalate_ms,
  -- escalate_to, on_message}, as far as it is not as usual.
  policy jsonb not null default '{}',
  deadline_at timestamptz,
  reminded_at timestamptz,
  escalated_at timestamptz,
  status text not null default 'pending' check (status in ('pending', 'decided', 'withdrawn')),
  asked_at timestamptz not null default clock_timestamp(),
  decided_at timestamptz,
  decided_by text,
  decided_run_id uuid,
  decision text,
  withdrawn_reason text,
  primary key (tenant_id, approval_id),
  foreign key (tenant_id, thread_id) references threads on delete cascade,
  constraint approvals_decided check ((status = 'pending') = (decided_at is null))
);
create unique index approvals_one_pending on approvals (tenant_id, thread_id, interrupt_id) where status = 'pending';
create index approvals_pending on approvals (tenant_id, asked_at) where status = 'pending';
create index approvals_thread on approvals (tenant_id, thread_id, asked_at desc);

-- Where more than one must say the same: what each said last. The answer itself is in the request of the run it makes.
create table approval_votes (
  tenant_id text collate "C" not null,
  approval_id uuid not null,
  person text not null,
  decision text,
  -- Of the answer as canonical JSON: votes for something else are not for this.
  answer_sha256 bytea not null,
  voted_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, approval_id, person),
  foreign key (tenant_id, approval_id) references approvals on delete cascade
);
