// What a route finds on its context: whose request it is and the id its answer and log lines carry.
import type { Principal, Within } from "../core/access.js";
import type { TenantId } from "../core/ids.js";

export type ApiEnv = {
  Variables: {
    tenantId: TenantId;
    requestId: string;
    /** Who asks, where not everybody is let in. */
    principal?: Principal;
    /** The threads that the caller may see, where a guard has found out. */
    within?: Within;
    /** Something has looked whether the caller may use the route. */
    guarded?: true;
    /** What was sent, as JSON data. */
    body?: unknown;
  };
};
