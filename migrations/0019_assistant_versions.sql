-- Every configuration an assistant has had, and which of them a run was made with.
alter table assistants
  -- The newest that was ever made; `version` is the one that counts.
  add column newest_version int not null default 1,
  add constraint assistants_version_check check (version between 1 and newest_version);
update assistants set newest_version = version;

create table assistant_versions (
  tenant_id text collate "C" not null,
  assistant_id uuid not null,
  version int not null,
  -- By a server as it started, from its own configuration: the next one may make another.
  made_at_start boolean not null,
  graph_id text collate "C" not null,
  name text not null,
  description text,
  config jsonb not null,
  context jsonb not null,
  metadata jsonb not null,
  created_at timestamptz not null default now(),
  primary key (tenant_id, assistant_id, version),
  foreign key (tenant_id, assistant_id) references assistants on delete cascade
);
insert into assistant_versions
select tenant_id, assistant_id, version, true, graph_id, name, description, config, context, metadata, updated_at
from assistants;

create function refuse_change() returns trigger
language plpgsql as $refuse$
begin
  raise exception '% rows never change', tg_table_name;
end
$refuse$;
create trigger assistant_versions_stay before update on assistant_versions
  for each row execute function refuse_change();

alter table runs add column assistant_version int;

-- Whether a run may begin with what its assistant was read with.
create function version_counts(tenant text, assistant uuid, read int) returns boolean
language sql stable as $$
  select exists (
    select 1 from assistants a where a.tenant_id = tenant and a.assistant_id = assistant and a.version = read)
$$;
