// Ports for servers that can't be asked for a free one, or that must come back on theirs.
import { createServer } from "node:net";

/** Below those that systems give out by themselves, so that nobody gets it between this look and its use. */
const [FROM, TO] = [20_000, 32_000];

/** Free on 127.0.0.1, and still so when a server on it was stopped for a while. */
export async function quietPort(): Promise<number> {
  for (;;) {
    const port = FROM + Math.floor(Math.random() * (TO - FROM));
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ host: "127.0.0.1", port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
