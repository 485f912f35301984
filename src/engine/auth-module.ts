// The project's own `Auth`: a module of its, looked at before anybody is let in.
import type { AuthModule } from "../core/access.js";
import { EngineError } from "../core/errors.js";
import { isObject } from "../core/json-parts.js";
import { importGraphModule } from "./graph-modules.js";
import { exportOf } from "./graphs.js";
import type { GraphSource } from "./langgraph-json.js";

/** Throws `config_invalid` for what is no `Auth`. */
export async function loadAuth({ file, exportName }: GraphSource): Promise<AuthModule> {
  const where = `auth.path (${file}, export "${exportName}")`;
  const module = await importGraphModule(file, where);
  return asAuth(exportOf(module, exportName, where), where);
}

/** What is given, if it is one, of whichever copy of the stock client. */
export function asAuth(value: unknown, where: string): AuthModule {
  const cache = (value as Readonly<Record<string, unknown>> | null | undefined)?.["~handlerCache"];
  if (isObject(cache)) return value as AuthModule;
  throw new EngineError(
    "config_invalid",
    `${where} is no Auth: write it as new Auth().authenticate(…) of @langchain/langgraph-sdk/auth`,
  );
}
