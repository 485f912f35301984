// The HTTP door: what holds for every request, and the routes behind it. One app per engine, served by any fetch server.
import { Hono, type HonoRequest, type MiddlewareHandler } from "hono";
import { getPath } from "hono/utils/url";
import type { Engine } from "../engine/engine.js";
import { a2aRoutes } from "./a2a/routes.js";
import { door } from "./auth/door.js";
import { guards } from "./auth/guards.js";
import { type HttpSettings, PLAIN_HTTP } from "../engine/http-json.js";
import type { UiBundles } from "../engine/graph-ui.js";
import type { OwnApp } from "../engine/own-apps.js";
import { corsOf } from "./cors.js";
import type { ApiEnv } from "./env.js";
import { errorResponse, nothingServed } from "./http-errors.js";
import { ownRoutes } from "./own-apps.js";
import { effectRoutes } from "./routes/effects.js";
import { approvalRoutes } from "./routes/approvals.js";
import { budgetRoutes } from "./routes/budgets.js";
import { channelRoutes } from "./routes/channels.js";
import { cronRoutes } from "./routes/crons.js";
import { contactRoutes } from "./routes/contacts.js";
import { followupRoutes } from "./routes/followups.js";
import { scheduleRoutes } from "./routes/schedules.js";
import { channelWebhookRoutes } from "./routes/channel-webhooks.js";
import { failedRunRoutes } from "./routes/failed-runs.js";
import { assistantRoutes } from "./routes/assistants.js";
import { manyRunsRoutes } from "./routes/many-runs.js";
import { docsRoutes } from "./routes/docs.js";
import { metaRoutes } from "./routes/meta.js";
import { measureRequests, metricsRoutes } from "./routes/metrics.js";
import { mcpRoutes } from "./mcp/routes.js";
import { runLogRoutes } from "./routes/run-log.js";
import { protocolRoutes } from "./protocol/routes.js";
import { runRoutes } from "./routes/runs.js";
import { truncateRoutes } from "./routes/truncate.js";
import { widgetRoutes } from "./widget/routes.js";
import { widgetScriptRoutes } from "./widget/script.js";
import { stateRoutes } from "./routes/state.js";
import { storeRoutes } from "./routes/store.js";
import { threadStreamRoutes } from "./routes/thread-stream.js";
import { threadRoutes } from "./routes/threads.js";
import { uiFileRoutes, uiRoutes } from "./routes/ui.js";
import { withoutDisabled } from "./surfaces.js";

export type AppOptions = Readonly<{
  /** What langgraph.json says of it. */
  http?: HttpSettings;
  /** The project's own routes. */
  own?: readonly OwnApp[];
  /** What graphs' runs have shown by the client. */
  ui?: UiBundles;
  /** Like "/agents": where the app it is mounted in leaves that on the path. */
  basePath?: string;
}>;

/**
 * The whole HTTP surface over an engine.
 *
 * @example const response = await createApp(engine).request("/threads", { method: "POST" });
 */
export function createApp(engine: Engine, options: AppOptions = {}): Hono {
  const { http = PLAIN_HTTP, own = [] } = options;
  const app = new Hono<ApiEnv>({ getPath: pathBelow([options.basePath ?? "", http.mountPrefix]) });
  app.onError((error, c) => errorResponse(error, c, engine.deps.log));
  app.notFound((c) => {
    throw nothingServed(c);
  });
  app.use(measureRequests(engine));
  app.use(requestId(engine));
  // With rules of its own for browsers.
  app.route("/", widgetRoutes(engine));
  app.use(corsOf(http.cors));
  const ui = options.ui ?? new Map();
  const open = openRoutes(engine, ui);
  const isOpen = ({ method, path }: HonoRequest): boolean =>
    open.router.match(method === "HEAD" ? "GET" : method, path)[0].length > 0;
  const enter = once(door(engine));
  app.route("/", ownRoutes({ apps: own, rules: http, enter, isOpen, home: engine.deps }));
  app.use(withoutDisabled(http.disabled));
  app.route("/", open);
  app.use(enter);
  app.route("/", guards(engine));
  app.route("/", metricsRoutes(engine));
  app.route("/", assistantRoutes(engine));
  app.route("/", threadRoutes(engine));
  app.route("/", stateRoutes(engine));
  app.route("/", threadStreamRoutes(engine));
  app.route("/", manyRunsRoutes(engine));
  // Before runs, whose ids would take its paths.
  app.route("/", cronRoutes(engine));
  app.route("/", runRoutes(engine));
  app.route("/", protocolRoutes(engine));
  app.route("/", runLogRoutes(engine));
  app.route("/", approvalRoutes(engine));
  app.route("/", effectRoutes(engine));
  app.route("/", failedRunRoutes(engine));
  app.route("/", budgetRoutes(engine));
  app.route("/", channelRoutes(engine));
  app.route("/", followupRoutes(engine));
  app.route("/", contactRoutes(engine));
  app.route("/", scheduleRoutes(engine));
  app.route("/", storeRoutes(engine));
  app.route("/", uiRoutes(ui));
  app.route("/", mcpRoutes(engine));
  app.route("/", a2aRoutes(engine));
  // What our routes keep on a request's context is no business of whoever mounts or serves the app.
  return app as unknown as Hono;
}

/** For everybody, or guarded in ways of their own. */
function openRoutes(engine: Engine, ui: UiBundles): Hono<ApiEnv> {
  const open = new Hono<ApiEnv>();
  open.route("/", metaRoutes(engine));
  open.route("/", docsRoutes());
  open.route("/", widgetScriptRoutes());
  open.route("/", channelWebhookRoutes(engine));
  open.route("/", uiFileRoutes(ui));
  // Suites of tests begin with it, whoever they are of.
  if (engine.testRoutes) open.route("/", truncateRoutes(engine));
  return open;
}

/** The path without the first of the prefixes that it has. */
function pathBelow(prefixes: readonly string[]): (request: Request) => string {
  const given = prefixes.filter((prefix) => prefix !== "");
  return (request) => {
    const path = getPath(request);
    const prefix = given.find((each) => path === each || path.startsWith(`${each}/`));
    return prefix === undefined ? path : path.slice(prefix.length) || "/";
  };
}

/** The caller's request id when it is one that can stand in a log line, else a new one. */
function requestId(engine: Engine): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const given = c.req.header("x-request-id");
    const id = given !== undefined && /^[\w.-]{1,64}$/.test(given) ? given : engine.deps.ids.next<string>();
    c.set("requestId", id);
    c.header("X-Request-Id", id);
    await next();
  };
}

/** Whoever was let in by the project's own routes isn't asked again. */
function once(enter: MiddlewareHandler<ApiEnv>): MiddlewareHandler<ApiEnv> {
  return (c, next) => (c.get("tenantId") === undefined ? enter(c, next) : next());
}
