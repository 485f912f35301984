// Who may use which route: one table. A route that isn't in it is served to nobody who is held to anything.
import { type Context, Hono } from "hono";
import type { AccessEvent } from "../../core/access.js";
import { reaches } from "../../core/access.js";
import type { OwnResource } from "../../core/scopes.js";
import type { Engine } from "../../engine/engine.js";
import type { ApiEnv } from "../env.js";
import { nothingServed } from "../http-errors.js";
import { ask } from "./ask.js";
import { unlessRefused, unlessToldInStream } from "./refusal.js";
import { APPROVAL, ASSISTANT, CRON, DELIVERY, FOLLOWUP, RUN, RUN_OF_THREAD, THREAD, type Thing } from "./things.js";

/** `itself`: the route asks, since the handler is told what the request says, or may change it. `anybody`: who was let in. */
type Guard =
  | "itself"
  | "anybody"
  | AccessEvent
  | readonly [AccessEvent, Thing]
  | readonly [AccessEvent, Thing, "in its stream"];
type Rule = readonly [methods: string, path: string, guard: Guard];

const RULES: readonly Rule[] = [
  ["POST", "/ui/:graph_id", "anybody"],
  ["POST", "/assistants", "itself"],
  ["POST", "/assistants/search", "itself"],
  ["POST", "/assistants/count", "itself"],
  ["GET", "/assistants/:assistant_id", ["assistants:read", ASSISTANT]],
  ["GET", "/assistants/:assistant_id/graph", ["assistants:read", ASSISTANT]],
  ["GET", "/assistants/:assistant_id/schemas", ["assistants:read", ASSISTANT]],
  ["GET", "/assistants/:assistant_id/subgraphs/:namespace?", ["assistants:read", ASSISTANT]],
  ["PATCH", "/assistants/:assistant_id", "itself"],
  ["DELETE", "/assistants/:assistant_id", ["assistants:delete", ASSISTANT]],
  ["POST", "/assistants/:assistant_id/versions", ["assistants:read", ASSISTANT]],
  ["POST", "/assistants/:assistant_id/latest", "itself"],

  ["POST", "/threads", "itself"],
  ["POST", "/threads/search", "itself"],
  ["POST", "/threads/count", "itself"],
  ["POST", "/threads/prune", "itself"],
  ["POST", "/threads/:thread_id/copy", "itself"],
  ["GET", "/threads/:thread_id", ["threads:read", THREAD]],
  ["PATCH", "/threads/:thread_id", "itself"],
  ["DELETE", "/threads/:thread_id", ["threads:delete", THREAD]],
  ["GET", "/threads/:thread_id/storage", ["threads:read", THREAD]],
  ["GET", "/threads/:thread_id/stream", ["threads:read", THREAD]],
  ["GET", "/threads/:thread_id/state", ["threads:read", THREAD]],
  ["GET", "/threads/:thread_id/state/:checkpoint_id", ["threads:read", THREAD]],
  ["POST", "/threads/:thread_id/state/checkpoint", ["threads:read", THREAD]],
  ["GET,POST", "/threads/:thread_id/history", ["threads:read", THREAD]],
  ["POST", "/threads/:thread_id/state", ["threads:update", THREAD]],
  ["PATCH", "/threads/:thread_id/state", "itself"],

  ["POST", "/runs/batch", "itself"],
  ["POST", "/runs/cancel", "itself"],
  ["POST", "/runs", "itself"],
  ["POST", "/runs/stream", "itself"],
  ["POST", "/runs/wait", "itself"],
  ["POST", "/threads/:thread_id/runs", "itself"],
  ["POST", "/threads/:thread_id/runs/stream", "itself"],
  ["POST", "/threads/:thread_id/runs/wait", "itself"],
  ["GET", "/threads/:thread_id/runs", ["threads:read", THREAD]],
  ["GET", "/threads/:thread_id/runs/:run_id", ["threads:read", RUN_OF_THREAD]],
  ["GET", "/threads/:thread_id/runs/:run_id/record", ["threads:read", RUN_OF_THREAD]],
  ["GET", "/threads/:thread_id/runs/:run_id/join", ["threads:read", RUN_OF_THREAD]],
  ["GET", "/threads/:thread_id/runs/:run_id/stream", ["threads:read", RUN_OF_THREAD, "in its stream"]],
  ["GET", "/runs/:run_id/stream", ["threads:read", RUN]],
  ["DELETE", "/threads/:thread_id/runs/:run_id", ["threads:delete", RUN_OF_THREAD]],
  ["POST", "/threads/:thread_id/runs/:run_id/cancel", ["threads:update", RUN_OF_THREAD]],

  // Who answers or starts something over it makes a run, and asks for that.
  ["POST", "/threads/:thread_id/commands", ["threads:read", THREAD]],
  ["POST,GET", "/threads/:thread_id/stream/events", ["threads:read", THREAD]],

  ["POST", "/runs/crons", "itself"],
  ["POST", "/threads/:thread_id/runs/crons", "itself"],
  ["POST", "/runs/crons/search", "itself"],
  ["POST", "/runs/crons/count", "itself"],
  ["GET", "/runs/crons/:cron_id", ["crons:read", CRON]],
  ["PATCH", "/runs/crons/:cron_id", "itself"],
  ["DELETE", "/runs/crons/:cron_id", ["crons:delete", CRON]],
  ["GET", "/v1/crons/:cron_id/firings", ["crons:read", CRON]],

  ["PUT,GET,DELETE", "/store/items", "itself"],
  ["POST", "/store/items/search", "itself"],
  ["POST", "/store/namespaces", "itself"],

  ["GET", "/v1/runs", "itself"],
  ["GET", "/v1/runs/:run_id", ["threads:read", RUN]],
  ["GET", "/v1/runs/:run_id/events", ["threads:read", RUN]],
  ["POST", "/v1/runs/:run_id/retry", ["threads:update", RUN]],
  ["POST", "/v1/runs/:run_id/close", ["threads:update", RUN]],
  ["GET", "/v1/approvals", "itself"],
  ["GET", "/v1/approvals/:approval_id", ["threads:read", APPROVAL]],
  ["POST", "/v1/approvals/:approval_id/decide", ["threads:update", APPROVAL]],
  ["GET", "/v1/effects", "itself"],
  ["GET", "/v1/followups", "itself"],
  ["GET", "/v1/followups/:followup_id", ["threads:read", FOLLOWUP]],
  ["POST", "/v1/followups/:followup_id/cancel", ["threads:update", FOLLOWUP]],
  ["POST", "/v1/followups/:followup_id/reschedule", ["threads:update", FOLLOWUP]],
  ["POST", "/v1/threads/:thread_id/followups", ["threads:update", THREAD]],
  ["GET", "/v1/deliveries", "itself"],
  ["GET", "/v1/deliveries/:delivery_id", ["threads:read", DELIVERY]],
  ["POST", "/v1/deliveries/:delivery_id/resolve", ["threads:update", DELIVERY]],
  ["GET", "/v1/conversations", "itself"],

  // What tools do is asked for by each of them, and what messages do, too.
  ["POST,GET,DELETE", "/mcp", "itself"],
  ["POST,GET,DELETE", "/mcp/", "itself"],
  ["POST", "/a2a/:assistant_id", "itself"],
  ["POST", "/a2a/:assistant_id/", "itself"],
  ["GET", "/a2a/:assistant_id/.well-known/agent-card.json", "itself"],
  ["GET", "/.well-known/agent-card.json", "itself"],
];

/** Of no thread: these are for operators, by what they are. */
const FOR_OPERATORS: readonly Rule[] = [
  ...of("/v1/budgets", "budgets"),
  ...of("/v1/prices", "prices"),
  ...of("/v1/channel-accounts", "channel_accounts"),
  ...of("/v1/contacts", "contacts"),
  ...of("/v1/suppressions", "suppressions"),
  ...of("/v1/schedules", "schedules"),
  ["PUT", "/v1/conversations", "conversations:update"],
  ["GET", "/metrics", "metrics:read"],
];

function of(path: string, resource: OwnResource): Rule[] {
  return [
    ["GET", `${path}/*`, `${resource}:read`],
    ["POST,PUT,PATCH,DELETE", `${path}/*`, `${resource}:update`],
  ];
}

/** Mount behind the door and before the routes. */
export function guards(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  if (engine.gate === null) return routes;
  for (const [methods, path, guard] of [...RULES, ...FOR_OPERATORS]) {
    const check = checkOf(engine, guard);
    const isTold = typeof guard === "object" && guard[2] !== undefined;
    routes.on(methods.split(","), [path], isTold ? unlessToldInStream(check) : unlessRefused(check));
  }
  routes.use(
    unlessRefused(async (c) => {
      const principal = c.get("principal");
      const isHeld = principal === undefined || principal.handled || principal.scopes?.includes("*") !== true;
      if (!isHeld || c.get("guarded") === true) return;
      throw nothingServed(c);
    }),
  );
  return routes;
}

function checkOf(engine: Engine, guard: Guard): (c: Context<ApiEnv>) => Promise<void> {
  return async (c) => {
    c.set("guarded", true);
    if (guard === "itself" || guard === "anybody") return;
    if (typeof guard === "string") {
      await ask(engine, c, guard, {});
      return;
    }
    const [event, thing] = guard;
    const { within } = await ask(engine, c, event, thing.ids(c));
    c.set("within", within);
    // A thread that isn't there a route may make, or wait for.
    if (within === null) return;
    const found = await thing.find(engine, c);
    const isTheirs = found === undefined ? thing === THREAD : reaches(within, found.metadata);
    if (!isTheirs) throw thing.gone(c);
  };
}
