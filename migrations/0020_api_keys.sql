-- Keys that let programs in, each for its tenant and as far as its scopes go; and whose threads a caller may see.
create table api_keys (
  tenant_id text collate "C" not null references tenants,
  api_key_id uuid not null,
  name text not null check (length(name) between 1 and 200),
  -- Of the whole key, which is nowhere but with whom it was given to.
  key_sha256 bytea not null check (length(key_sha256) = 32),
  scopes text[] not null check (cardinality(scopes) between 1 and 100),
  -- The key whose place it takes.
  rotates uuid,
  created_at timestamptz not null default clock_timestamp(),
  -- Null: it doesn't.
  expires_at timestamptz,
  revoked_at timestamptz,
  -- To the hour.
  last_used_at timestamptz,
  primary key (tenant_id, api_key_id)
);

-- The threads that somebody may see who may only see those with this in their metadata.
create function threads_within(tenant text, wanted jsonb) returns setof uuid
language sql stable as $$
  select t.thread_id from threads t where t.tenant_id = tenant and t.metadata @> wanted
$$;
