// Statements that a connection keeps parsed and planned. Parsing and planning the group commit takes two thirds of what it
// costs the server (measured: 2.6 ms of CPU against 0.8). Only where the connection is ours alone: behind a transaction
// pooler a name may be unknown, or taken by another client.
import { createHash } from "node:crypto";
import pg from "pg";

/** A kept plan fits the tables as they were when it was made: one from an empty table would scan it when it is full. */
const MAX_PLAN_AGE_MS = 30_000;

/** invalid_sql_statement_name, duplicate_prepared_statement: somebody shares our connections without saying so. */
const SHARED = new Set(["26000", "42P05"]);
/** feature_not_supported: "cached plan must not change result type", after a migration. */
const OUTDATED = "0A000";

/** One per pool. */
export class PreparedStatements {
  private readonly names = new Map<string, string>();
  private readonly plannedAt = new WeakMap<pg.ClientBase, number>();
  private off = false;

  /** Undefined where statements must not be kept. The same text has the same name, whoever prepared it. */
  nameOf(text: string): string | undefined {
    if (this.off) return undefined;
    let name = this.names.get(text);
    if (name === undefined) {
      name = `perdure_${createHash("sha256").update(text).digest("hex").slice(0, 40)}`;
      this.names.set(text, name);
    }
    return name;
  }

  /** Has the server plan anew now and then, functions included. For a connection between two statements. */
  async refresh(client: pg.ClientBase): Promise<void> {
    const now = performance.now();
    const since = this.plannedAt.get(client);
    if (since !== undefined && now - since < MAX_PLAN_AGE_MS) return;
    this.plannedAt.set(client, now);
    if (since !== undefined) await client.query("discard plans");
  }

  /** True when the statement was refused for being kept, before it did anything: it may be sent again without. */
  isRefusal(error: unknown): boolean {
    if (!(error instanceof pg.DatabaseError) || error.code === undefined) return false;
    if (SHARED.has(error.code)) this.off = true;
    return SHARED.has(error.code) || error.code === OUTDATED;
  }
}
