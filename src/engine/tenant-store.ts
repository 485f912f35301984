// One tenant's part of the store, for graphs (`config.store`) and the API alike. It stands under a label of the tenant's, and each label is
// written so that none begins another and nothing in it means anything to LIKE or to the path: PostgresStore finds prefixes by text.
import {
  BaseStore,
  type Item,
  type ListNamespacesOperation,
  type Operation,
  type OperationResults,
  type PutOperation,
} from "@langchain/langgraph-checkpoint";
import type { Sql } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import type { TenantId } from "../core/ids.js";
import { isObject } from "../core/json-parts.js";

/** The store's index takes no longer names: 2,704 bytes for a path and a key. */
const MOST_NAME_BYTES = 2_400;

export type StoreItem = Item;
export type StoreBatch = (operations: Operation[]) => Promise<unknown[]>;
/** `refreshTtl`: whether reading gives what expires its whole time again; left out, the configuration says. */
export type StoreOperation = Operation & Readonly<{ refreshTtl?: boolean | undefined }>;

export class TenantStore extends BaseStore {
  private readonly root: string;

  constructor(
    tenantId: TenantId,
    private readonly parts: Readonly<{ batch: StoreBatch; sql: Sql; refreshOnRead: boolean }>,
  ) {
    super();
    this.root = written(tenantId);
  }

  /** Throws `bad_request` for a filter or name that can't be meant. */
  override async batch<Op extends StoreOperation[]>(operations: Op): Promise<OperationResults<Op>> {
    const results: unknown[] = [];
    for (const operation of operations) results.push(await this.one(operation));
    return results as OperationResults<Op>;
  }

  private async one(operation: StoreOperation): Promise<unknown> {
    if ("namespacePrefix" in operation) {
      checkFilter(operation.filter ?? {});
      const namespacePrefix = this.place(operation.namespacePrefix);
      const items = await this.ask<Item[]>({ ...operation, namespacePrefix }).catch(asUnmeant);
      await this.refresh(operation, items);
      return items.map(shown);
    }
    if (!("namespace" in operation)) return this.namespaces(operation);
    const namespace = this.place(operation.namespace);
    if ("value" in operation) return this.keep({ ...operation, namespace });
    const item = await this.ask<Item | null>({ ...operation, namespace });
    if (item === null) return null;
    await this.refresh(operation, [item]);
    return shown(item);
  }

  private keep(operation: PutOperation): Promise<unknown> {
    const { namespace, key } = operation;
    if (namespace.length < 2) throw new EngineError("bad_request", "namespace: must not be empty");
    if (Buffer.byteLength(namespace.join(":")) + Buffer.byteLength(key) > MOST_NAME_BYTES) {
      throw new EngineError("bad_request", `namespace and key: together longer than ${MOST_NAME_BYTES} bytes`);
    }
    return this.ask(operation);
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

/** `user_1` as `[user~5f1]`. */
function written(label: string): string {
  const escaped = label.replaceAll(/[~[\]:.%_\\]/g, (char) => `~${char.charCodeAt(0).toString(16)}`);
  return `[${escaped}]`;
}

function read(label: string): string {
  return label.slice(1, -1).replaceAll(/~([0-9a-f]{2})/g, (_, code: string) => String.fromCharCode(parseInt(code, 16)));
}

function shown<T extends Item>(item: T): T {
  return { ...item, namespace: item.namespace.slice(1).map(read) };
}

const NUMBER_OPS = new Set(["$gt", "$gte", "$lt", "$lte"]);
const LIST_OPS = new Set(["$in", "$nin"]);
const VALUE_OPS = new Set(["$eq", "$ne"]);

/** PostgresStore leaves out operators that it doesn't know, and compares what is no plain value by what JavaScript makes of it as text. */
function checkFilter(filter: Readonly<Record<string, unknown>>): void {
  for (const [field, wanted] of Object.entries(filter)) {
    const isOperators = isObject(wanted) && Object.keys(wanted).some((name) => name.startsWith("$"));
    const problem = isOperators ? operatorsProblem(wanted) : isPlain(wanted) || isObject(wanted) ? null : NEEDS_PLAIN;
    if (problem !== null) throw new EngineError("bad_request", `filter.${field}: ${problem}`);
  }
}

const NEEDS_PLAIN = "must be text, a number, true, false, an object that is contained, or operators like $gte";

function operatorsProblem(operators: Readonly<Record<string, unknown>>): string | null {
  for (const [name, value] of Object.entries(operators)) {
    if (NUMBER_OPS.has(name)) {
      if (typeof value !== "number") return `${name} must have a number`;
    } else if (LIST_OPS.has(name)) {
      if (!Array.isArray(value) || value.length === 0 || !value.every(isPlain))
        return `${name} must have a list of plain values`;
    } else if (VALUE_OPS.has(name)) {
      if (!isPlain(value)) return `${name} must have a plain value`;
    } else if (name !== "$exists" || typeof value !== "boolean") {
      return `${name} must be one of $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin and $exists (true or false)`;
    }
  }
  return null;
}

function isPlain(value: unknown): boolean {
  return ["string", "number", "boolean"].includes(typeof value);
}

const NOT_A_NUMBER = new Set<unknown>(["22P02", "22003"]);
const TOO_MANY_WORDS = "54000";

/** A number was looked for where an item has something else, or words in what has too many of them. */
function asUnmeant(error: unknown): never {
  const { code } = error as { code?: unknown };
  if (code === TOO_MANY_WORDS) {
    throw new EngineError(
      "bad_request",
      "query: there is an item with too many words to look in; take a longer prefix",
      {
        cause: error,
      },
    );
  }
  if (!NOT_A_NUMBER.has(code)) throw error;
  throw new EngineError("bad_request", "filter: compares numbers, and an item has something else there", {
    cause: error,
  });
}
