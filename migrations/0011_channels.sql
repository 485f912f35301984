-- Where people are reached: accounts of channels, the addresses in them that are tied to threads, and what is to be sent there.
create table channel_accounts (
  tenant_id text collate "C" not null references tenants,
  channel_account_id uuid not null,
  -- telegram, whatsapp, slack … : which adapter speaks for it.
  kind text not null check (kind ~ '^[a-z][a-z0-9_]{0,31}$'),
  name text not null check (length(name) between 1 and 80),
  -- JSON, sealed where there is a secret key.
  credentials bytea not null,
  settings jsonb not null default '{}',
  -- paused: nothing is sent until somebody has looked; what is to be sent is kept.
  status text not null default 'open' check (status in ('open', 'paused')),
  paused_code text,
  paused_at timestamptz,
  -- Nothing is sent before.
  blocked_until timestamptz,
  -- Messages in a row that got no answer, or that it was out of order.
  troubles int not null default 0,
  -- Messages a second at most, null: as many as there are; and what of a second's worth is left, as of when.
  per_second float8 check (per_second > 0),
  tokens float8 not null default 0,
  tokens_at timestamptz not null default clock_timestamp(),
  -- How far a polling receiver has got, and which process polls, until when.
  cursor text,
  poll_owner text,
  poll_until timestamptz,
  -- When the channel last reached us: as long as it doesn't, its silence says nothing.
  receipt_at timestamptz,
  version int not null default 1,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, channel_account_id),
  constraint channel_accounts_name unique (tenant_id, name),
  constraint channel_accounts_paused check ((status = 'paused') = (paused_at is not null))
) with (fillfactor = 70);
-- Webhooks come with the account's id alone.
create unique index channel_accounts_id on channel_accounts (channel_account_id);

-- An address in a channel, tied to a thread.
create table conversations (
  tenant_id text collate "C" not null,
  conversation_id uuid not null,
  channel_account_id uuid not null,
  -- As the channel needs it; address_key is what makes it the same one again.
  address jsonb not null,
  address_key text collate "C" not null,
  thread_id uuid not null,
  person jsonb not null default '{}',
  time_zone text,
  locale text,
  last_inbound_at timestamptz,
  -- The channel refuses messages to this address; cleared when the person writes.
  unreachable_code text,
  unreachable_at timestamptz,
  -- For readers of the web inbox: one number per item, in the order of their commits.
  last_seq bigint not null default 0,
  read_seq bigint not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, conversation_id),
  foreign key (tenant_id, channel_account_id) references channel_accounts,
  foreign key (tenant_id, thread_id) references threads on delete cascade,
  constraint conversations_address unique (tenant_id, channel_account_id, address_key)
);
create index conversations_thread on conversations (tenant_id, thread_id);

-- Of which turn a run is: its answer goes there.
alter table runs add column conversation_id uuid;

-- What came in: a row makes the second copy of a webhook harmless.
create table inbound_events (
  tenant_id text collate "C" not null,
  channel_account_id uuid not null,
  external_id text collate "C" not null,
  kind text not null,
  run_id uuid,
  -- Of a message: its place among those of its conversation, by the channel's own count or clock.
  place bigint,
  received_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, channel_account_id, external_id)
);
create index inbound_events_received on inbound_events (received_at);

-- The outbox: one row is one message on the wire.
create sequence delivery_seq;
create table deliveries (
  tenant_id text collate "C" not null,
  delivery_id uuid not null,
  -- The order in its conversation.
  seq bigint not null default nextval('delivery_seq'),
  -- What it is for: the answer of a run, its question, a follow-up, a template that announces a delivery, a run's end for its webhook, …
  source_kind text not null check (source_kind in ('reply', 'question', 'followup', 'outreach', 'doorbell', 'notice', 'webhook')),
  source_id uuid not null,
  part int not null default 0,
  thread_id uuid not null,
  run_id uuid,
  channel_account_id uuid not null,
  conversation_id uuid not null,
  kind text not null,
  -- JSON as the adapter rendered it. It is content.
  payload bytea not null,
  payload_sha256 bytea not null check (length(payload_sha256) = 32),
  on_unknown text not null check (on_unknown in ('hold', 'resend', 'reconcile', 'reserve_edit')),
  status text not null default 'pending' check (status in (
    'pending', 'sending', 'sent', 'delivered', 'read', 'unknown', 'failed', 'parked', 'suppressed', 'expired')),
  -- The one of its conversation that may be sent.
  head boolean not null default false,
  next_at timestamptz not null default clock_timestamp(),
  not_after timestamptz,
  -- Times that it went out, or may have.
  attempts int not null default 0,
  -- Times in a row that it certainly didn't, for a reason that may pass.
  refusals int not null default 0,
  lease_until timestamptz,
  current_token uuid,
  unknown_since timestamptz,
  -- The message on the channel whose place it takes, where it is sent in two steps.
  reserved_message_id text,
  provider_message_id text,
  error_code text,
  -- A receipt told of an attempt that was given up: the person may have it twice.
  duplicate boolean not null default false,
  -- When the agent was told that the person may not have it.
  noted_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  settled_at timestamptz,
  primary key (tenant_id, delivery_id),
  foreign key (tenant_id, conversation_id) references conversations on delete cascade,
  constraint deliveries_source unique (tenant_id, source_kind, source_id, part),
  constraint deliveries_leased check ((status = 'sending') = (lease_until is not null)),
  constraint deliveries_head check (not head or status in ('pending', 'sending', 'unknown'))
) with (fillfactor = 85);
create index deliveries_ready on deliveries (tenant_id, channel_account_id, next_at, seq) where status = 'pending' and head;
create index deliveries_sending on deliveries (lease_until) where status = 'sending';
create index deliveries_unsure on deliveries (next_at) where status = 'unknown' and head;
create unique index deliveries_one_head on deliveries (tenant_id, conversation_id) where head;
create index deliveries_waiting on deliveries (tenant_id, conversation_id, seq) where status in ('pending', 'parked');
create index deliveries_questions on deliveries (tenant_id, conversation_id, seq) where source_kind = 'question';
create index deliveries_thread on deliveries (tenant_id, thread_id, seq desc);
create index deliveries_unheard on deliveries (tenant_id, thread_id)
  where noted_at is null and status in ('unknown', 'failed', 'expired');
create index deliveries_newest on deliveries (tenant_id, seq desc);
create index deliveries_message on deliveries (tenant_id, channel_account_id, provider_message_id)
  where provider_message_id is not null;

-- Tokens are never overwritten: what is told late still finds its attempt.
create table delivery_attempts (
  tenant_id text collate "C" not null,
  token uuid not null,
  delivery_id uuid not null,
  worker text not null,
  claimed_at timestamptz not null default clock_timestamp(),
  wire_started_at timestamptz,
  outcome text,
  provider_message_id text,
  error_code text,
  settled_at timestamptz,
  primary key (tenant_id, token),
  foreign key (tenant_id, delivery_id) references deliveries on delete cascade
);
create index delivery_attempts_delivery on delivery_attempts (tenant_id, delivery_id, claimed_at);

-- What the channel told of messages, in any order, perhaps before our own commit.
create table delivery_receipts (
  tenant_id text collate "C" not null,
  channel_account_id uuid not null,
  provider_message_id text collate "C" not null,
  status text not null check (status in ('sent', 'delivered', 'read', 'failed')),
  token uuid,
  error_code text,
  at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, channel_account_id, provider_message_id, status)
);
create index delivery_receipts_at on delivery_receipts (at);
