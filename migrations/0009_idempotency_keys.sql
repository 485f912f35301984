-- What requests with an Idempotency-Key have made, so that one that comes again makes nothing new.
create table idempotency_keys (
  tenant_id text collate "C" not null,
  -- Of who asks, method, path and key: the same key elsewhere is another one.
  key_sha256 bytea not null check (length(key_sha256) = 32),
  -- Of the body as canonical JSON.
  request_sha256 bytea not null check (length(request_sha256) = 32),
  -- The run or thread. It may be gone by now.
  made_id uuid not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, key_sha256)
);
create index idempotency_keys_age on idempotency_keys (created_at);
