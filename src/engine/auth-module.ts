// The project's own `Auth`: a module of its, looked at before anybody is let in.
import type { AuthModule } from "../core/access.js";
import { EngineError } from "../core/errors.js";
import { isObject } from "../core/json-parts.js";
import { importSource, type ModuleSource } from "./module-source.js";

/** Throws `config_invalid` for what is no `Auth`. */
export async function loadAuth(source: ModuleSource): Promise<AuthModule> {
  const where = `auth.path (${source.file}, export "${source.exportName}")`;
  return asAuth(await importSource(source, where), where);
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
