// Bad input on every route, made from the API's own description: it is refused with a word, answered in time, and leaves no row.
import fc from "fast-check";
import { expect, test } from "vitest";
import { OPERATIONS, openApiDocument } from "../../src/api/openapi/document.js";
import { type Known, valueOf } from "../helpers/from-schema.js";
import { size, SOAK_MS } from "../helpers/soak.js";
import type { TestEngine } from "../helpers/engine.js";
import { withEngine } from "../helpers/engine.js";
import { graphs } from "./graphs.js";

const REQUESTS = size(1_500, 10_000);
const SEED = Number(process.env["PERDURE_FUZZ_SEED"] ?? 20_261_130);
const ROUND = 250;
const IN_TIME_MS = 10_000;

type Json = Readonly<Record<string, unknown>>;
type Parameter = Readonly<{ name: string; in: "path" | "query"; schema: Json }>;
type Described = Readonly<{
  parameters: readonly Parameter[];
  requestBody?: Readonly<{ content: Readonly<Record<string, Readonly<{ schema: Json }>>> }>;
}>;
type Sent = Readonly<{ method: string; path: string; body: string | undefined; headers: Record<string, string> }>;

/** Paths with what is known about them, but for those whose answer is a file or a socket. */
function described(): { method: string; path: string; operation: Described }[] {
  const paths = openApiDocument("0").paths as Readonly<Record<string, Readonly<Record<string, Described>>>>;
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
}

function requestOf(known: Known): fc.Arbitrary<Sent> {
  const each = described().map(({ method, path, operation }) => {
    const parts = operation.parameters.map((parameter) =>
      valueOf(parameter.schema, known, parameter.name).map((value) => ({ ...parameter, value })),
    );
    const schema = operation.requestBody?.content["application/json"]?.schema;
    const body =
      schema === undefined ? fc.constant(undefined) : valueOf(schema, known).map((value) => JSON.stringify(value));
    // Of many parameters few are given.
    const given = fc.tuple(...parts.map((part) => fc.tuple(part, fc.integer({ min: 0, max: 3 }))));
    const raw = fc.oneof(
      { weight: 30, arbitrary: body },
      {
        weight: 1,
        arbitrary: fc.constantFrom("{", "[]", "null", "3", '"x"', "", '{"a":1e999}', '{"__proto__":{"a":1}}'),
      },
    );
    const headers = fc.record(
      {
        prefer: fc.constantFrom("return=minimal", "wait=0", "wait=x"),
        "last-event-id": fc.constantFrom("-1", "-", "0", "x", "9".repeat(30)),
        "idempotency-key": fc.constantFrom("k", "", "k".repeat(300)),
        accept: fc.constantFrom("application/json", "*/*"),
      },
      { requiredKeys: [] },
    );
    return fc.tuple(given, raw, headers).map(([values, text, more]) => ({
      method,
      path: pathOf(path, values),
      body: method === "GET" ? undefined : text,
      headers: { "content-type": "application/json", ...more },
    }));
  });
  return fc.oneof(...each);
}

function pathOf(template: string, values: readonly (readonly [Parameter & { value: unknown }, number])[]): string {
  let path = template;
  const query = new URLSearchParams();
  for (const [{ name, in: where, value }, often] of values) {
    if (where === "path") path = path.replace(`{${name}}`, encoded(value));
    else if (often === 0) for (const one of [value].flat()) query.append(name, textOf(one));
  }
  return query.size === 0 ? path : `${path}?${query}`;
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? ""));
const encoded = (value: unknown): string => encodeURIComponent(textOf(value).toWellFormed().slice(0, 500)) || "x";

/** How many rows there are of what clients make. */
async function rowCounts({ db }: TestEngine): Promise<Readonly<Record<string, number>>> {
  const { rows } = await db.db.query<Record<string, number>>(
    `select ${MADE.map((table) => `(select count(*)::int from ${table}) as "${table}"`).join(", ")}`,
  );
  return rows[0] as Record<string, number>;
}
const MADE = [
  ...["threads", "runs", "assistants", "assistant_versions", "checkpoints", "approvals", "crons", "budgets", "prices"],
  ...["channel_accounts", "conversations", "contacts", "suppressions", "schedules", "followups", "deliveries"],
  ...["idempotency_keys", "perdure_store.store"],
];

/** One of what paths name, so that requests get further than to a 404. */
async function knownIn({ client, app }: TestEngine): Promise<Known> {
  const { thread_id } = await client.threads.create({ graphId: "steps" });
  const done = await client.threads.create({ graphId: "steps" });
  await client.threads.updateState(done.thread_id, { values: { log: ["x"] }, asNode: "one" });
  const { run_id } = await client.runs.create(thread_id, "steps", { input: { log: [] }, afterSeconds: 3_600 });
  const { assistant_id } = await client.assistants.create({ graphId: "steps" });
  const { cron_id } = await client.crons.create("steps", { schedule: "0 0 1 1 *", enabled: false });
  const contact = await app.request("/v1/contacts", { method: "POST", body: '{"key":"k"}' });
  const { contact_id } = (await contact.json()) as { contact_id: string };
  const nobody = "00000000-0000-4000-8000-000000000000";
  return {
    ...{ thread_id: [thread_id, done.thread_id, nobody, "x"], run_id: [run_id, nobody, "%00"] },
    ...{
      assistant_id: [assistant_id, "steps", "gate", "nested", nobody, "no such"],
      graph_id: ["steps", "echo", "nope"],
    },
    ...{ cron_id: [String((cron_id as string | undefined) ?? nobody), nobody], contact_id: [contact_id, nobody] },
    ...{ scope: ["run", "thread", "day", "week"], ref_id: [thread_id, "tenant", "x"] },
    ...{ as_node: ["one", "two", "__end__", "nope"], checkpoint_id: [nobody, "x"] },
  };
}

test(`${REQUESTS} requests: no 5xx, no hang, no row from a refused one`, { timeout: SOAK_MS }, () =>
  withEngine({ graphs, workers: 0 }, async (t) => {
    const met = new Map<number, number>();
    // What requests name is deleted by some of them: now and then there is something new.
    for (let done = 0; done < REQUESTS; done += ROUND) {
      const known = await knownIn(t);
      let before = await rowCounts(t);
      await fc.assert(
        fc.asyncProperty(requestOf(known), async ({ method, path, body, headers }) => {
          const leave = new AbortController();
          const answer = async (): Promise<number> => {
            const init = { method, headers, signal: leave.signal, ...(body !== undefined && { body }) };
            const response = await t.app.request(path, init);
            // Streams are open as long as somebody reads.
            if (response.headers.get("content-type")?.includes("event-stream")) await response.body?.cancel();
            else if (/\/(wait|join)(\?|$)/.test(path)) await response.body?.cancel();
            else await response.text();
            return response.status;
          };
          const status = await Promise.race([
            answer(),
            new Promise<number>((resolve) => setTimeout(resolve, IN_TIME_MS, 0)),
          ]);
          leave.abort();
          met.set(status, (met.get(status) ?? 0) + 1);
          expect(status, `${method} ${path} ${body?.slice(0, 2_000)}`).toBeGreaterThan(0);
          expect(status, `${method} ${path} ${body?.slice(0, 2_000)}`).toBeLessThan(500);
          const after = await rowCounts(t);
          if (status >= 400) expect(after, `${method} ${path} ${body?.slice(0, 2_000)}`).toEqual(before);
          before = after;
        }),
        { numRuns: ROUND, seed: SEED + done, endOnFailure: true },
      );
    }
    // Not only refusals were tried.
    expect(met.get(200)).toBeGreaterThan(REQUESTS / 5);
    expect(Object.keys(OPERATIONS).length).toBeGreaterThan(100);
  }),
);
