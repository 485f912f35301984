// What the doors (HTTP, CLI) get: the parts commands need, and who is asking. Everything else is a function over it.
import type { Deps } from "../core/deps.js";
import type { TenantId } from "../core/ids.js";
import type { Graphs } from "./graphs.js";

export type Engine = Readonly<{
  deps: Deps;
  graphs: Graphs;
  /** Whose request this is, from its headers. Rejects with an EngineError when it is nobody's. */
  tenantOf(headers: Headers): Promise<TenantId>;
}>;
