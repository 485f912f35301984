// Routes of the project's own (`http.app`, `http.apps`): modules that export an app, looked at before anybody is answered by it.
import { EngineError } from "../core/errors.js";
import type { HttpSettings } from "./http-json.js";
import { importSource } from "./module-source.js";

/** Whatever answers requests; one of Hono has more. */
export type FetchApp = Readonly<{ fetch(request: Request, ...rest: unknown[]): Response | Promise<Response> }>;
export type OwnApp = Readonly<{ /** "" for none. */ prefix: string; app: FetchApp }>;

/** Throws `config_invalid` for what is no app. */
export async function loadOwnApps({ apps }: HttpSettings): Promise<OwnApp[]> {
  const loaded: OwnApp[] = [];
  // One after the other: modules that are imported twice at once would share one error.
  for (const { prefix, source } of apps) {
    const name = prefix === "" ? "http.app" : `http.apps["${prefix}"]`;
    const where = `${name} (${source.file}, export "${source.exportName}")`;
    loaded.push({ prefix, app: asApp(await importSource(source, where), { prefix }, where) });
  }
  return loaded;
}

function asApp(value: unknown, { prefix }: Pick<OwnApp, "prefix">, where: string): FetchApp {
  if (!isFetchApp(value)) {
    throw new EngineError("config_invalid", `${where} is no app: export one of Hono, or an object with fetch(request)`);
  }
  // Its routes can't be told from ours.
  if (prefix !== "" || isHono(value)) return value;
  throw new EngineError(
    "config_invalid",
    `${where} is no app of Hono: any other needs a prefix of its own, in "http.apps"`,
  );
}

/** By shape, not by instanceof: a project has its own copy of Hono. */
export function isHono(app: object): boolean {
  const { routes } = app as { routes?: unknown };
  return (
    Array.isArray(routes) && routes.every((route) => typeof (route as { handler?: unknown }).handler === "function")
  );
}

function isFetchApp(value: unknown): value is FetchApp {
  return typeof (value as { fetch?: unknown } | null | undefined)?.fetch === "function";
}
