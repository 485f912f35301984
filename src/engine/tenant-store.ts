// One tenant's part of the store, for graphs (`config.store`) and the API alike. It stands under a label of the tenant's. Where the store has an
// index, what is put is embedded first and kept with its vectors, and a query finds what comes nearest; otherwise it looks for words.
import {
  BaseStore,
  type Item,
  type ListNamespacesOperation,
  type Operation,
  type OperationResults,
  type PutOperation,
  type SearchItem,
  type SearchOperation,
} from "@langchain/langgraph-checkpoint";
import type { Sql } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import type { TenantId } from "../core/ids.js";
import { read, written } from "../items/labels.js";
import { keepWithVectors, type Meaning, nearestItems } from "../items/vectors.js";
import { asUnmeant, checkFilter, conditionsOf } from "./store-filter.js";
import type { StoreIndex } from "./store-index.js";

/** The store's index takes no longer names: 2,704 bytes for a path and a key. */
const MOST_NAME_BYTES = 2_400;

export type StoreItem = SearchItem;
export type StoreBatch = (operations: Operation[]) => Promise<unknown[]>;
/** `refreshTtl`: whether reading gives what expires its whole time again; left out, the configuration says. */
export type StoreOperation = Operation & Readonly<{ refreshTtl?: boolean | undefined }>;

export type TenantStoreParts = Readonly<{
  batch: StoreBatch;
  sql: Sql;
  refreshOnRead: boolean;
  /** Of items that are put without a time to live, in minutes; null: they stay. */
  defaultTtl: number | null;
  /** Null: a query looks for words. */
  index: StoreIndex | null;
}>;

export class TenantStore extends BaseStore {
  private readonly root: string;
  /** Whether a query finds what is meant. */
  readonly hasIndex: boolean;

  constructor(
    private readonly tenantId: TenantId,
    private readonly parts: TenantStoreParts,
  ) {
    super();
    this.root = written(tenantId);
    this.hasIndex = parts.index !== null;
  }

  /** Throws `bad_request` for a filter or name that can't be meant, and `embedding_failed` before anything is written. */
  override async batch<Op extends StoreOperation[]>(operations: Op): Promise<OperationResults<Op>> {
    for (const operation of operations) if (isPut(operation)) this.checkName(operation);
    const vectors = await this.embed(operations.filter(isPut));
    const results: unknown[] = [];
    for (const operation of operations) results.push(await this.one(operation, vectors));
    return results as OperationResults<Op>;
  }

  private async one(operation: StoreOperation, vectors: Embedded): Promise<unknown> {
    if ("namespacePrefix" in operation) {
      checkFilter(operation.filter ?? {});
      const items = await this.find({ ...operation, namespacePrefix: this.place(operation.namespacePrefix) });
      await this.refresh(operation, items);
      return items.map(shown);
    }
    if (!("namespace" in operation)) return this.namespaces(operation);
    if (isPut(operation)) return this.keep(operation, vectors.get(operation));
    const item = await this.ask<Item | null>({ ...operation, namespace: this.place(operation.namespace) });
    if (item === null) return null;
    await this.refresh(operation, [item]);
    return shown(item);
  }

  private checkName({ namespace, key }: PutOperation): void {
    if (namespace.length === 0) throw new EngineError("bad_request", "namespace: must not be empty");
    if (Buffer.byteLength(this.place(namespace).join(":")) + Buffer.byteLength(key) > MOST_NAME_BYTES) {
      throw new EngineError("bad_request", `namespace and key: together longer than ${MOST_NAME_BYTES} bytes`);
    }
  }

  /** The vectors of all that are put, at once; of what isn't to be found, none. */
  private async embed(puts: readonly PutOperation[]): Promise<Embedded> {
    const { index } = this.parts;
    if (index === null) return new Map();
    const kept = puts.filter(({ value }) => value !== null);
    const asked = kept.map(({ value, index: at }) => ({ value, paths: at === false ? [] : (at ?? null) }));
    const vectors = await index.vectorsOf(asked);
    return new Map(
      kept.map((put, n) => [put, { indexId: index.id, paths: asked[n]?.paths ?? null, vectors: vectors[n] ?? [] }]),
    );
  }

  private async keep(operation: PutOperation, meaning: Meaning | undefined): Promise<unknown> {
    const namespace = this.place(operation.namespace);
    if (meaning === undefined) return this.ask({ ...operation, namespace });
    // As PostgresStore takes it, which knows more of a put than the operation's type: 0 is for ever.
    const { ttl: given } = (operation as Readonly<{ options?: { ttl?: number } }>).options ?? {};
    const ttl = given ?? this.parts.defaultTtl;
    const at = { tenantId: this.tenantId, path: namespace.join(":"), key: operation.key };
    return keepWithVectors(this.parts.sql, at, { ...meaning, value: operation.value, ttl: ttl === 0 ? null : ttl });
  }

  private async find(operation: SearchOperation): Promise<SearchItem[]> {
    const { index, sql } = this.parts;
    const { query, filter = {}, limit = 10, offset = 0 } = operation;
    if (index === null || !query) return this.ask<Item[]>(operation).catch(asUnmeant);
    const vector = await index.vectorOf(query);
    const found = await nearestItems(sql, {
      ...{ tenantId: this.tenantId, indexId: index.id, prefix: operation.namespacePrefix.join(":"), vector },
      ...{ conditions: conditionsOf(filter), limit, offset },
    }).catch(asUnmeant);
    return found.map(({ path, ...item }) => ({ ...item, namespace: path.split(":") }));
  }

  private async ask<T>(operation: Operation): Promise<T> {
    const [result] = await this.parts.batch([operation]);
    return result as T;
  }

  private place(namespace: readonly string[]): string[] {
    return [this.root, ...namespace.map(written)];
  }

  /** As long again as it was given, or got when it was last read. */
  private async refresh({ refreshTtl }: StoreOperation, items: readonly Item[]): Promise<void> {
    if (!(refreshTtl ?? this.parts.refreshOnRead) || items.length === 0) return;
    await this.parts.sql.query(
      `with kept as materialized (
        select namespace_path, key
        from perdure_store.store
        where (namespace_path, key) in (select * from unnest($1::text[], $2::text[])) and expires_at > current_timestamp
        order by namespace_path, key
        for no key update
      )
      update perdure_store.store s
      set expires_at = current_timestamp + (s.expires_at - s.updated_at)
      from kept
      where s.namespace_path = kept.namespace_path and s.key = kept.key`,
      [items.map(({ namespace }) => namespace.join(":")), items.map(({ key }) => key)],
    );
  }

  /** PostgresStore leaves deeper ones out instead of cutting them, knows no "*", and counts what has expired. */
  private async namespaces(operation: ListNamespacesOperation): Promise<string[][]> {
    const { matchConditions = [], maxDepth = null, limit = 100, offset = 0 } = operation;
    const conditions = matchConditions.map(({ matchType, path }) => ({
      suffix: matchType === "suffix",
      path: path.map((label) => (label === "*" ? label : written(label))),
    }));
    const { rows } = await this.parts.sql.query<{ labels: string[] }>(
      `select distinct case when $3::int is null then labels else labels[1:$3 + 1] end collate "C" as labels
      from (
        select string_to_array(namespace_path, ':') as labels
        from perdure_store.store
        where namespace_path like $1 || ':%' and (expires_at is null or expires_at > current_timestamp)
      ) s
      where not exists (
        select 1
        from jsonb_to_recordset($2) c(suffix boolean, path jsonb)
        where jsonb_array_length(path) >= cardinality(labels) or exists (
          select 1
          from jsonb_array_elements_text(path) with ordinality p(label, n)
          where label <> '*'
            and labels[(n + case when suffix then cardinality(labels) - jsonb_array_length(path) else 1 end)::int] <> label))
      order by labels
      limit $4 offset $5`,
      [this.root, JSON.stringify(conditions), maxDepth, limit, offset],
    );
    return rows.map(({ labels }) => labels.slice(1).map(read));
  }
}

type Embedded = ReadonlyMap<PutOperation, Meaning>;

function isPut(operation: StoreOperation): operation is PutOperation {
  return "value" in operation;
}

function shown<T extends Item>(item: T): T {
  return { ...item, namespace: item.namespace.slice(1).map(read) };
}
