// What a route finds on its context: what the server put beside the request, whose request it is, and the id its answer and log lines carry.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Context } from "hono";
import type { Principal, Within } from "../core/access.js";
import type { TenantId } from "../core/ids.js";
import type { ThreadRow } from "../runs/threads.js";

/** Nothing of it comes from the client. */
type Bindings = {
  incoming?: IncomingMessage;
  outgoing?: ServerResponse;
};

export type ApiEnv = {
  Bindings: Bindings;
  Variables: {
    tenantId: TenantId;
    requestId: string;
    /** Who asks, where not everybody is let in. */
    principal?: Principal;
    /** The threads that the caller may see, where a guard has found out. */
    within?: Within;
    /** The thread that the path names, where a guard has read it: whoever comes next needn't. */
    thread?: ThreadRow;
    /** Something has looked whether the caller may use the route. */
    guarded?: true;
    /** What was sent, as JSON data. */
    body?: unknown;
    /** The request as it came, where middleware of the project's own is around us. */
    asItCame?: Request;
  };
};

/** What stands beside the request: nothing, where no server was asked. */
export function beside(c: Context<ApiEnv>): Readonly<Bindings> {
  // Hono's type has none that is left out.
  const { env } = c as Readonly<{ env: Bindings | undefined }>;
  return env ?? {};
}
