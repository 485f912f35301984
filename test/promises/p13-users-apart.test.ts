// P13 for the users of one tenant: the matrix of every route that is served and every id that a request can name, with another user's ids.
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import {
  bodyFor,
  everything,
  FOLLOWUP,
  type Ids,
  pathWith,
  rowsOf,
  RUN,
  servedRoutes,
} from "../helpers/every-route.js";
import { gateGraph } from "../helpers/scripted-graphs.js";
import { clientAs, gateOf, ownersAuth, sendAs, USER_HEADER } from "../helpers/users.js";

/** Belong to no thread: nobody's but the operators', whose else they may be. */
const OPERATORS = ["budgets", "channel_accounts", "contacts", "conversations", "prices", "schedules", "suppressions"];
const OF_OPERATORS = /^\/v1\/(budgets|channel-accounts|contacts|prices|schedules|suppressions)\//;

const auth = ownersAuth();
for (const resource of OPERATORS) {
  auth.on(resource as "*", ({ permissions }) => permissions.includes("operator"));
}

const nameless = (text: string): string => text.replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "<id>");

type Users = Readonly<{
  alice: ReturnType<typeof sendAs>;
  bob: ReturnType<typeof sendAs>;
  bobs: ReturnType<typeof clientAs>;
}>;

/** Runs `work` with everything of Alice's, none of which it may change. */
async function apart(work: (t: TestEngine, users: Users, ids: Ids) => Promise<void>): Promise<void> {
  const acted: string[] = [];
  // Nobody moves, schedules or delivers here: a row that changes was changed by a request.
  const options = { graphs: { graph: gateGraph(acted) }, moveAfterMs: 3_600_000, auth: gateOf(auth) };
  await withEngine(options, async (t) => {
    const operator = { send: sendAs(t.app, "alice operator"), client: clientAs(t.app, { [USER_HEADER]: "alice" }) };
    const ids = await everything(t, "default", operator);
    const bobs = clientAs(t.app, { [USER_HEADER]: "bob" });
    const before = await rowsOf(t, "default");
    await work(t, { alice: sendAs(t.app, "alice"), bob: sendAs(t.app, "bob"), bobs }, ids);
    expect(await rowsOf(t, "default")).toEqual(before);
    expect(acted).toEqual([]);
  });
}

test("every route that is served answers 404 to another user's ids, as to ids that nobody has, and changes nothing", async () => {
  await apart(async (t, { bob }, ids) => {
    const served = servedRoutes(createApp({ ...t.engine, gate: null }));
    let asked = 0;
    for (const route of served) {
      const [method = "", pattern = ""] = route.split(" ");
      const body = bodyFor(method, pattern, ids);
      const { status, text } = await bob(method, pathWith(pattern, ids), body);
      // A route without a rule is nobody's.
      expect(text, route).not.toMatch(/^Nothing is served/);
      asked += 1;
      expect(text, route).not.toMatch(/secret/);
      if (OF_OPERATORS.test(pattern)) {
        expect(status, route).toBe(403);
        continue;
      }
      if (pattern === "/threads/:thread_id/runs/:run_id/stream") {
        expect([status, text]).toEqual([
          200,
          'event: error\ndata: {"error":"not_found","message":"404: Run not found"}\n\n',
        ]);
        continue;
      }
      // Stock servers answer a copy of what isn't there with 409.
      expect(`${route}: ${status} ${text}`).toMatch(`${route}: ${pattern.endsWith("/copy") ? 409 : 404}`);
      // What waits for a thread, and what is told in the answer, say other things of a thread that may come.
      if (/\/(stream\/events|commands)$/.test(pattern)) continue;
      const nobodys = Object.fromEntries(Object.keys(ids).map((name) => [name, randomUUID()]));
      const other = await bob(method, pathWith(pattern, nobodys), body);
      expect([status, nameless(text)], route).toEqual([other.status, nameless(other.text)]);
    }
    expect(asked).toBeGreaterThanOrEqual(60);
  });
});

test("another user's ids in bodies and queries name nothing; lists, counts and pages leave out what is theirs", async () => {
  await apart(async (_t, { bob, bobs }, ids) => {
    const { thread_id, run_id, assistant_id, conversation_id } = ids;
    const refused: (readonly [string, string, unknown])[] = [
      ["POST", "/threads", { thread_id }],
      ["POST", "/threads", { thread_id, if_exists: "do_nothing" }],
      ["POST", "/assistants", { graph_id: "graph", assistant_id, if_exists: "do_nothing" }],
      ["POST", `/threads/${thread_id}/runs`, { ...RUN, if_not_exists: "create" }],
      ["POST", `/threads/${thread_id}/runs/wait`, { ...RUN, if_not_exists: "create", multitask_strategy: "rollback" }],
      ["POST", "/runs", { ...RUN, assistant_id }],
      ["POST", "/runs/batch", [{ ...RUN, assistant_id }]],
      ["POST", "/runs/crons", { ...RUN, assistant_id, schedule: "0 9 * * MON" }],
      ["POST", "/runs/cancel", { run_ids: [run_id] }],
      ["POST", "/runs/cancel", { thread_id, run_ids: [run_id] }],
      ["POST", `/v1/threads/${thread_id}/followups`, { ...FOLLOWUP, conversation_id }],
    ];
    for (const [method, path, body] of refused) {
      const { status, text } = await bob(method, path, body);
      expect(`${method} ${path} ${JSON.stringify(body)}: ${status} ${text}`).toMatch(/: (404|409|422) /);
      expect(text).not.toMatch(/secret/);
    }
    for (const action of ["interrupt", "rollback"]) {
      for (const body of [{ status: "all" }, { status: "all", thread_id }]) {
        expect((await bob("POST", `/runs/cancel?action=${action}`, body)).status).toBe(204);
      }
    }
    for (const strategy of ["delete", "keep_latest"]) {
      const pruned = await bob("POST", "/threads/prune", { thread_ids: [thread_id], strategy });
      expect(pruned.text).toBe('{"pruned_count":0}');
    }
    const lists = ["approvals", "runs", "effects", "conversations", "deliveries", "followups"];
    for (const path of [...lists, ...lists.filter((of) => of !== "runs").map((of) => `${of}?thread_id=${thread_id}`)]) {
      expect([path, (await bob("GET", `/v1/${path}`)).text]).toEqual([path, "[]"]);
    }
    const found = [
      await bobs.threads.search({ ids: [thread_id as string] }),
      await bobs.threads.search({ metadata: { secret: "mine" } }),
      await bobs.threads.search(),
      await bobs.assistants.search(),
      await bobs.crons.search(),
    ];
    expect(found).toEqual([[], [], [], [], []]);
    for (const path of ["/threads/count", "/assistants/count", "/runs/crons/count"]) {
      expect([path, (await bob("POST", path, {})).text]).toEqual([path, "0"]);
    }
    const page = await bob("POST", "/threads/search", { metadata: { owner: "alice" } });
    expect([page.text, page.headers.get("x-pagination-total")]).toEqual(["[]", "0"]);
  });
});
