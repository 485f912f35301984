// Where the development server may listen: this machine only, on a port that is free.
import { once } from "node:events";
import { createServer } from "node:net";
import { EngineError } from "../../core/errors.js";

/** It asks nobody for a key, so nobody else may reach it. */
export function refusePublic(host: string): void {
  if (host === "localhost" || host === "::1" || host.startsWith("127.")) return;
  throw new EngineError(
    "config_invalid",
    `perdure dev listens on this machine only, not on ${host}; take \`perdure start\` to serve others`,
  );
}

export const urlOf = (host: string, port: number): string =>
  `http://${host.includes(":") ? `[${host}]` : host}:${port}`;

/** Finds out before anything is started. */
export async function refuseTakenPort(host: string, port: number): Promise<void> {
  const server = createServer().listen(port, host);
  try {
    await once(server, "listening");
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    const what = code === "EADDRINUSE" ? "is in use; stop what listens there or" : `can't be used (${code});`;
    throw new EngineError("config_invalid", `Port ${port} on ${host} ${what} give another with --port`, { cause });
  }
  server.close();
  await once(server, "close");
}
