// What `perdure migrate` does for vectors once PostgresStore's tables are there.
import type { Sql } from "../core/deps.js";

/** Ties vectors to their items, and compares them by the extension `vector` where the database has it. */
export async function setUpVectors(sql: Sql): Promise<void> {
  await sql.query(TIE);
  await sql.query(BY_EXTENSION);
}

/** However an item goes, its vectors go with it. */
const TIE = `
  do $tie$
  begin
    if not exists (select from pg_constraint where conname = 'store_vectors_item' and conrelid = 'store_vectors'::regclass) then
      alter table store_vectors add constraint store_vectors_item
        foreign key (namespace_path, key) references perdure_store.store on delete cascade;
    end if;
  end
  $tie$`;

// Parsed once, here, where its names are looked up: the function depends on the extension, which can't be dropped under it.
const BY_EXTENSION = `
  do $by$
  declare
    place text := (select nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where extname = 'vector');
  begin
    if place is not null then
      execute format(
        'create or replace function store_similarity(a real[], b real[]) returns float8
        language sql immutable strict parallel safe cost 100
        begin atomic select -((a::%1$I.vector) operator(%1$I.<#>) (b::%1$I.vector)); end', place);
    end if;
  end
  $by$`;
