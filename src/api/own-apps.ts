// The project's own routes and middleware in front of ours. An app of Hono is merged into ours, so that its middleware is around our routes as
// well; anything else that answers requests gets what is below its prefix.
import { Hono, type Handler, type HonoRequest, type MiddlewareHandler } from "hono";
import { inspectRoutes } from "hono/dev";
import type { HttpSettings } from "../engine/http-json.js";
import { actingAs } from "../engine/loopback.js";
import { isHono, type OwnApp } from "../engine/own-apps.js";
import type { ApiEnv } from "./env.js";

export type OwnRoutes = Readonly<{
  apps: readonly OwnApp[];
  rules: Pick<HttpSettings, "authFirst" | "customRouteAuth">;
  /** Refuses who isn't to be let in. Safe to repeat. */
  enter: MiddlewareHandler<ApiEnv>;
  /** Whether a path of ours is for everybody. */
  isOpen(request: HonoRequest): boolean;
  /** Whose calls from inside are its routes'. */
  home: object;
}>;

/** To be mounted before our own routes. */
export function ownRoutes({ apps, rules, enter, isOpen, home }: OwnRoutes): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  if (apps.length === 0) return routes;
  routes.use(async (c, next) => {
    c.set("asItCame", c.req.raw);
    const who = () => {
      const tenantId = c.get("tenantId");
      return tenantId === undefined ? null : { tenantId, user: null, principal: c.get("principal") };
    };
    await actingAs({ home, who }, next);
  });
  if (rules.authFirst) routes.use(firstOfAll(enter, (c) => !rules.customRouteAuth || isOpen(c.req)));
  const guard = rules.customRouteAuth ? enter : null;
  for (const { prefix, app } of apps) {
    if (isHono(app)) routes.route(prefix === "" ? "/" : prefix, guarded(app as Hono<ApiEnv>, guard));
    else routes.use(`${prefix}/*`, ...(guard ? [guard] : [])).mount(prefix, (raw) => app.fetch(raw));
  }
  return routes;
}

/** Whether a route of theirs takes a POST at a path; middleware alone takes nothing. */
export function takesPost(apps: readonly OwnApp[]): (path: string) => boolean {
  const routes = new Hono();
  for (const { prefix, app } of apps) {
    if (!isHono(app)) routes.all(`${prefix}/*`, () => new Response());
    else routes.route(prefix === "" ? "/" : prefix, answering(app as Hono));
  }
  return (path) => {
    const { pathname } = new URL(path, "http://localhost");
    return routes.router.match("POST", pathname)[0].length > 0;
  };
}

function answering(app: Hono): Hono {
  const kinds = inspectRoutes(app);
  const copy = new Hono();
  copy.routes = app.routes.filter((_route, at) => kinds[at]?.isMiddleware !== true);
  return copy;
}

/** Where it may go on in spite of it, the refusal comes later, from whoever wants to know. */
function firstOfAll(
  enter: MiddlewareHandler<ApiEnv>,
  mayGoOn: (c: Parameters<MiddlewareHandler<ApiEnv>>[0]) => boolean,
): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    try {
      const refused = await enter(c, () => Promise.resolve());
      if (refused instanceof Response && !mayGoOn(c)) return refused;
    } catch (error) {
      if (!mayGoOn(c)) throw error;
    }
    return next();
  };
}

/** Its middleware as it is; whatever may answer comes after the guard. */
function guarded(app: Hono<ApiEnv>, guard: MiddlewareHandler<ApiEnv> | null): Hono<ApiEnv> {
  if (guard === null) return app;
  const kinds = inspectRoutes(app);
  const copy = new Hono<ApiEnv>();
  Object.assign(copy, { errorHandler: (app as unknown as { errorHandler: unknown }).errorHandler });
  copy.routes = app.routes.map((route, at) => {
    const isAround = route.method === "ALL" && kinds[at]?.isMiddleware === true;
    return isAround ? route : { ...route, handler: after(guard, route.handler as Handler<ApiEnv>) };
  });
  return copy;
}

function after(guard: MiddlewareHandler<ApiEnv>, handler: Handler<ApiEnv>): Handler<ApiEnv> {
  return async (c, next) => {
    const refused = await guard(c, () => Promise.resolve());
    return refused instanceof Response ? refused : ((await handler(c, next)) as Response);
  };
}
