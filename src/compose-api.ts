// Builds the API over an engine: on a port, and inside for the graphs of its process.
import { type AppOptions, createApp } from "./api/app.js";
import { ACTING_AS } from "./api/auth/door.js";
import { principalOf } from "./api/auth/inside.js";
import { type ApiServer, serveApi } from "./api/server.js";
import { type ComposedEngine, composeGate, type EngineSettings } from "./compose.js";
import type { Engine } from "./engine/engine.js";
import { bindLoopback } from "./engine/loopback.js";

type Address = Readonly<{ host: string; port: number; waits?: boolean }>;

export type Api = Readonly<{
  app: ReturnType<typeof createApp>;
  close(): void;
}>;

/** The API; graphs and routes of this process find it from now on as well. */
export function composeApi(engine: ComposedEngine, options: AppOptions): Api {
  const app = createApp(engine, options);
  return { app, close: openInside(engine, () => Promise.resolve({ app, auth: engine.settings.auth })) };
}

export type InnerOptions = AppOptions &
  Readonly<{ /** Who is let in, where that wasn't known before. */ auth?: EngineSettings["auth"] }>;

/** The same for graphs alone, made when the first of them calls it. */
export function composeInnerApi(engine: ComposedEngine, options: () => Promise<InnerOptions>): () => void {
  let made: Promise<Inner> | undefined;
  return openInside(engine, () => (made ??= options().then((given) => innerOf(engine, given))));
}

type Inner = Readonly<{ app: Api["app"]; auth: EngineSettings["auth"] }>;

function innerOf(engine: ComposedEngine, { auth = engine.settings.auth, ...options }: InnerOptions): Inner {
  const settings = { ...engine.settings, auth };
  const gate = auth === engine.settings.auth ? engine.gate : composeGate(engine.deps, engine.graphs, settings);
  return { app: createApp({ ...engine, gate }, options), auth };
}

function openInside(engine: ComposedEngine, inner: () => Promise<Inner>): () => void {
  return bindLoopback(engine.deps, async (request, who) => {
    const { app, auth } = await inner();
    const principal = who && principalOf(who, auth);
    return app.fetch(request, principal === null ? {} : { [ACTING_AS]: principal });
  });
}

/** The API on a port. */
export function listenApi(engine: Engine, address: Address, app = createApp(engine)): Promise<ApiServer> {
  return serveApi(app, address);
}
