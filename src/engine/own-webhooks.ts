// Completion webhooks that are told to the project's own routes: in this very process, or where the API is.
import { type ProviderAnswer, request as send } from "../delivery/channels/request.js";
import type { OwnRoutes } from "../delivery/channels/run-webhook.js";
import { callHome } from "./loopback.js";

/**
 * `home` is whose API answers them here. They are like anybody's requests: credentials that the routes want are in
 * `webhooks.headers` of langgraph.json.
 */
export function ownWebhooks(
  home: object,
  { takes, apiUrl }: Readonly<{ takes: OwnRoutes["takes"]; apiUrl: string | null }>,
): OwnRoutes {
  return {
    takes,
    post(path, { headers, body, signal }) {
      const init = { method: "POST", headers, body, signal };
      if (apiUrl !== null) return send(`${apiUrl.replace(/\/+$/, "")}${path}`, init);
      return answered(home, new Request(new URL(path, "http://localhost"), init));
    },
  };
}

async function answered(home: object, request: Request): Promise<ProviderAnswer> {
  try {
    const { status, headers, body } = await callHome(home, request);
    await body?.cancel();
    return { kind: "answer", status, headers, text: "" };
  } catch {
    return { kind: "unknown", code: request.signal.aborted ? "timeout" : "failed" };
  }
}
