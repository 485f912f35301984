// Every route that is served, one of everything that has an id, and every row of a tenant: for tests of who may see and change what.
import { randomUUID } from "node:crypto";
import type { Client } from "@langchain/langgraph-sdk";
import { expect } from "vitest";
import type { createApp } from "../../src/api/app.js";
import type { TestEngine } from "./engine.js";

/** Served before anybody knows whose request it is: by a signature or a token of its own. */
const WITHOUT_TENANT = /^\/v1\/(widget|channels)\//;

export type Answer = Readonly<{ status: number; text: string }>;
export type Send = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>;
export type Side = Readonly<{ send: Send; client: Client }>;
export type Ids = Readonly<Record<string, string>>;

/** One of everything that has an id, made as its owner makes it. */
export async function everything(t: TestEngine, tenantId: string, { send, client }: Side): Promise<Ids> {
  const make = async (method: string, path: string, body: unknown): Promise<Record<string, string>> => {
    const { status, text } = await send(method, path, body);
    expect(status, `${method} ${path}: ${text}`).toBeLessThan(300);
    return JSON.parse(text) as Record<string, string>;
  };
  const { assistant_id } = await make("POST", "/assistants", { graph_id: "graph", name: "secret" });
  const { thread_id } = await client.threads.create({ metadata: { secret: "mine" } });
  await client.runs.wait(thread_id, "graph", { input: { log: ["secret"] } });
  const [run] = await client.runs.list(thread_id);
  const { checkpoint } = await client.threads.getState(thread_id);
  const [approval] = JSON.parse((await send("GET", "/v1/approvals")).text) as { approval_id: string }[];
  const account = await make("POST", "/v1/channel-accounts", {
    ...{ kind: "telegram", name: "secret bot", credentials: { token: "123:secret-of-the-bot" } },
    settings: { assistant_id: "graph", mode: "polling" },
  });
  const { channel_account_id } = account;
  const conversation = await make("PUT", "/v1/conversations", {
    channel_account_id,
    thread_id,
    address: { chat_id: 7 },
  });
  const { conversation_id } = conversation;
  const followup = { about: "secret", instruction: "secret", mode: "remind", when: { in: "PT1H" }, conversation_id };
  const { followup_id } = await make("POST", `/v1/threads/${thread_id}/followups`, followup);
  const { contact_id } = await make("POST", "/v1/contacts", { key: "secret key", conversation_ids: [conversation_id] });
  const { schedule_id } = await make("POST", "/v1/schedules", {
    ...{ name: "secret", when: { cron: "0 9 * * MON" }, time_zone: "UTC", audience: { contacts: [contact_id] } },
    ...{ mode: "remind", about: "secret", instruction: "secret" },
  });
  const { cron_id } = await make("POST", "/runs/crons", CRON);
  await make("POST", "/v1/suppressions", { conversation_id, scope: "marketing" });
  const [suppression] = JSON.parse((await send("GET", "/v1/suppressions")).text) as { suppression_id: string }[];
  await make("PUT", `/v1/budgets/thread/${thread_id}`, { cost: 7 });
  const delivery_id = randomUUID();
  await t.db.db.query(
    `insert into deliveries (tenant_id, delivery_id, source_kind, source_id, thread_id, channel_account_id, conversation_id,
      kind, payload, payload_sha256, on_unknown, status)
    values ($5, $1, 'notice', $1, $2, $3, $4, 'text', 'secret', sha256('secret'), 'hold', 'unknown')`,
    [delivery_id, thread_id, channel_account_id, conversation_id, tenantId],
  );
  const ids = { thread_id, run_id: run?.run_id, checkpoint_id: checkpoint.checkpoint_id ?? "", ref_id: thread_id };
  const more = { approval_id: approval?.approval_id, channel_account_id, conversation_id, followup_id, contact_id };
  const all = {
    ...ids,
    ...more,
    schedule_id,
    assistant_id,
    cron_id,
    suppression_id: suppression?.suppression_id,
    delivery_id,
    scope: "thread",
  };
  expect(Object.entries(all).filter(([, id]) => id === undefined)).toEqual([]);
  return all as Ids;
}

/** Every row of a tenant, but for what loops and heartbeats change by themselves. */
export async function rowsOf({ db }: TestEngine, tenantId: string): Promise<unknown> {
  const { rows: tables } = await db.db.query<{ name: string }>(
    `select table_name as name from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
    where table_schema = 'perdure' and column_name = 'tenant_id' and table_type = 'BASE TABLE'
      and table_name <> 'claim_cursor' order by 1`,
  );
  const rows: Record<string, unknown> = {};
  for (const { name } of tables) {
    const { rows: found } = await db.db.query<{ row: string }>(
      `select to_jsonb(x)::text as row from ${name} x where tenant_id = $1 order by 1`,
      [tenantId],
    );
    rows[name] = found.map(({ row }) => row);
  }
  expect(Object.keys(rows).length).toBeGreaterThan(25);
  return rows;
}

export const FOLLOWUP = { about: "x", instruction: "x", mode: "remind", when: { in: "PT1H" } };
export const SCHEDULE = {
  ...{ name: "x", when: { cron: "0 9 * * MON" }, time_zone: "UTC" },
  ...{ mode: "remind", about: "x", instruction: "x" },
};
export const RUN = { assistant_id: "graph", input: { log: [] } };
const CRON = { ...RUN, schedule: "0 9 * * MON" };

/** What a route wants in its body before it looks for whose it is. */
export function bodyFor(method: string, path: string, ids: Ids): unknown {
  if (method === "GET" || method === "DELETE") return undefined;
  if (/\/runs(\/(stream|wait))?$/.test(path)) return RUN;
  if (path.endsWith("/runs/crons")) return CRON;
  if (path.endsWith("/state/checkpoint")) return { checkpoint: { checkpoint_id: ids.checkpoint_id } };
  if (path.endsWith("/commands")) return { id: 1, method: "state.get", params: {} };
  if (path.endsWith("/state")) return { values: { log: ["x"] } };
  if (path.endsWith("/followups")) return FOLLOWUP;
  if (path.endsWith("/reschedule")) return { when: { in: "PT2H" } };
  if (path.endsWith("/latest")) return { version: 1 };
  if (path.endsWith("/decide")) return { value: "yes" };
  if (path.endsWith("/resolve")) return { as: "sent" };
  if (path.endsWith("/backfill")) return { from: "2026-01-01T00:00:00Z", to: "2026-01-02T00:00:00Z" };
  if (path.includes("/v1/schedules/") && method === "PATCH") return { version: 1, name: "theirs" };
  if (path.includes("/v1/channel-accounts/")) return { paused: true };
  if (path.includes("/v1/budgets/")) return { cost: 1 };
  return {};
}

/** `METHOD /path/:id`, of those that name something. */
export function servedRoutes(app: ReturnType<typeof createApp>): ReadonlySet<string> {
  return new Set(
    app.routes
      .filter(({ method, path }) => method !== "ALL" && path.includes("/:") && !WITHOUT_TENANT.test(path))
      .map(({ method, path }) => `${method} ${path.replace(/\/$/, "").replace("{.*}", "")}`),
  );
}

/** The path with what it names. */
export function pathWith(pattern: string, ids: Ids): string {
  return pattern.replaceAll(/:(\w+)\??/g, (_, name: string) => ids[name] ?? randomUUID());
}
