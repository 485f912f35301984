// What a route finds on its context: whose request it is and the id its answer and log lines carry.
import type { TenantId } from "../core/ids.js";

export type ApiEnv = {
  Variables: { tenantId: TenantId; requestId: string /** What was sent, as JSON data. */; body?: unknown };
};
