-- What items of the store mean: the vectors that `store.index` of langgraph.json has made of their texts.
create table store_vectors (
  tenant_id text collate "C" not null,
  -- As PostgresStore writes it; the first label is the tenant's.
  namespace_path text collate "C" not null,
  key text not null,
  -- What they were made by; others are not compared with them.
  index_id text not null,
  -- Of the value they were made of: they say nothing about another one.
  value_sha256 bytea not null,
  -- Where in the value texts were looked for, if the item was put with places of its own; empty: it isn't to be found.
  paths text[],
  -- Each of length 1, one after the other.
  vectors real[] not null,
  primary key (namespace_path, key)
);

-- They can't be compressed, and trying takes time.
alter table store_vectors alter column vectors set storage external;

-- What vectors are made by, in the order in which processes have begun with it: the newest is what the store is indexed by.
create table store_indexes (
  index_id text primary key,
  started_at timestamptz not null default clock_timestamp(),
  -- When somebody is to look for items without vectors of it.
  due_at timestamptz not null default clock_timestamp()
);

-- The cosine of two vectors of length 1. Where the extension `vector` is, `perdure migrate` puts a much faster one in its place.
create function store_similarity(a real[], b real[]) returns float8
language plpgsql immutable strict parallel safe cost 10000 as $similarity$
declare
  sum float8 := 0;
begin
  for i in 1 .. cardinality(b) loop
    sum := sum + a[i] * b[i];
  end loop;
  return sum;
end
$similarity$;
