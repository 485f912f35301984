// The HTTP door: what holds for every request, and the routes behind it. One app per engine, served by any fetch server.
import { Hono, type MiddlewareHandler } from "hono";
import { cors } from "hono/cors";
import { HTTPException } from "hono/http-exception";
import type { Engine } from "../engine/engine.js";
import { door } from "./auth/door.js";
import { guards } from "./auth/guards.js";
import type { ApiEnv } from "./env.js";
import { errorResponse } from "./http-errors.js";
import { REPLAYED_HEADER } from "./idempotency.js";
import { IGNORED_FIELDS_HEADER } from "./request.js";
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
import { notImplementedRoutes } from "./routes/not-implemented.js";
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

const EXPOSED_HEADERS = [
  "content-location",
  "location",
  "x-pagination-total",
  "x-pagination-next",
  "x-request-id",
  IGNORED_FIELDS_HEADER.toLowerCase(),
  REPLAYED_HEADER.toLowerCase(),
  "preference-applied",
];

/**
 * The whole HTTP surface over an engine.
 *
 * @example const response = await createApp(engine).request("/threads", { method: "POST" });
 */
export function createApp(engine: Engine): Hono {
  const app = new Hono<ApiEnv>();
  app.onError((error, c) => errorResponse(error, c, engine.deps.log));
  app.notFound((c) => {
    throw new HTTPException(404, { message: `Nothing is served at ${c.req.method} ${c.req.path}` });
  });
  app.use(measureRequests(engine));
  app.use(requestId(engine));
  // With rules of its own for browsers.
  app.route("/", widgetRoutes(engine));
  // Browsers ask for what they need; allowing what they ask for covers every x- header.
  app.use(cors({ origin: "*", exposeHeaders: EXPOSED_HEADERS }));
  app.route("/", metaRoutes(engine));
  app.route("/", docsRoutes());
  app.route("/", widgetScriptRoutes());
  app.route("/", channelWebhookRoutes(engine));
  // Suites of tests begin with it, whoever they are of.
  if (engine.testRoutes) app.route("/", truncateRoutes(engine));
  app.use(door(engine));
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
  app.route("/", notImplementedRoutes());
  // What our routes keep on a request's context is no business of whoever mounts or serves the app.
  return app as unknown as Hono;
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
