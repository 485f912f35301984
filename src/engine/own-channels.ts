// Channels of a project's own: modules that export an adapter, looked at before anything is sent over them.
import { EngineError } from "../core/errors.js";
import type { ChannelAdapter } from "../delivery/channel.js";
import { importSource, type ModuleSource } from "./module-source.js";

/** Throws `config_invalid` for what is no adapter. */
export async function loadChannels(sources: readonly ModuleSource[]): Promise<ChannelAdapter[]> {
  const adapters: ChannelAdapter[] = [];
  for (const source of sources) {
    const where = `channel (${source.file}, export "${source.exportName}")`;
    adapters.push(asAdapter(await importSource(source, where), where));
  }
  return adapters;
}

const FUNCTIONS = ["addressKey", "spacingMs", "render", "send"] as const;
const SCHEMAS = ["credentials", "settings", "address"] as const;

/** What is given, if it has what an adapter needs. */
export function asAdapter(value: unknown, where: string): ChannelAdapter {
  const given = (typeof value === "object" && value !== null ? value : {}) as Readonly<Record<string, unknown>>;
  const lacks = [
    ...(typeof given["kind"] === "string" && /^[a-z][a-z0-9_]{0,31}$/.test(given["kind"]) ? [] : ["kind, a word"]),
    ...FUNCTIONS.filter((name) => typeof given[name] !== "function").map((name) => `${name}()`),
    ...SCHEMAS.filter((name) => !isSchema(given[name])).map((name) => `${name}, a schema of zod`),
    ...(hasDefaults(given["defaults"]) ? [] : ["defaults, with onUnknown, timeoutMs and perSecond"]),
  ];
  if (lacks.length === 0) return value as ChannelAdapter;
  throw new EngineError("config_invalid", `${where} is no channel adapter: it lacks ${lacks.join("; ")}`);
}

const isSchema = (value: unknown): boolean =>
  typeof (value as { safeParse?: unknown } | undefined)?.safeParse === "function";

function hasDefaults(value: unknown): boolean {
  const { onUnknown, timeoutMs, perSecond } = (value ?? {}) as Readonly<Record<string, unknown>>;
  return typeof onUnknown === "string" && typeof timeoutMs === "number" && perSecond !== undefined;
}

/** All that are there, by kind. Throws `config_invalid` when two are of one kind. */
export function channelsByKind(adapters: readonly ChannelAdapter[]): ReadonlyMap<string, ChannelAdapter> {
  const byKind = new Map<string, ChannelAdapter>();
  for (const adapter of adapters) {
    if (byKind.has(adapter.kind)) {
      throw new EngineError(
        "config_invalid",
        `there are two channels of kind "${adapter.kind}": give one another kind`,
      );
    }
    byKind.set(adapter.kind, adapter);
  }
  return byKind;
}
