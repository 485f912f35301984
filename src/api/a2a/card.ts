// An agent's card: who it is and where it is spoken to, as clients of 0.3 and of 1.0 look for it.
import type { Context } from "hono";
import type { AssistantRow } from "../../assistants/queries.js";
import type { Engine } from "../../engine/engine.js";
import type { ApiEnv } from "../env.js";

const MODES = ["text/plain", "application/json"];

export function cardOf(engine: Engine, c: Context<ApiEnv>, assistant: AssistantRow) {
  const { assistantId, graphId, name } = assistant;
  const url = `${baseOf(c)}/a2a/${assistantId}`;
  const description =
    assistant.description ?? engine.graphs.description(graphId) ?? `The agent ${JSON.stringify(name)}`;
  return {
    ...{ name, description, url, version: String(assistant.version) },
    ...{ protocolVersion: "0.3.0", preferredTransport: "JSONRPC" },
    supportedInterfaces: ["1.0", "0.3"].map((protocolVersion) => ({
      ...{ url, protocolBinding: "JSONRPC", protocolVersion, tenant: "" },
    })),
    capabilities: { streaming: true, pushNotifications: false, stateTransitionHistory: false, extensions: [] },
    defaultInputModes: MODES,
    defaultOutputModes: MODES,
    skills: [{ id: graphId, name, description, tags: [graphId], inputModes: MODES, outputModes: MODES }],
  };
}

/** As the caller has come here, through what stands in front of this process. */
function baseOf(c: Context<ApiEnv>): string {
  const { protocol, host, pathname } = new URL(c.req.url);
  const [prefix = ""] = pathname.split(/\/(?:a2a|\.well-known)\//);
  const forwarded = c.req.header("x-forwarded-proto");
  const scheme = forwarded === "https" || forwarded === "http" ? `${forwarded}:` : protocol;
  return `${scheme}//${host}${prefix.replace(/\/$/, "")}`;
}
