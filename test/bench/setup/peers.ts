// The peers' packages have a lock of their own, so that the root's installation stays small. They are installed when needed.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL("../", import.meta.url));

/** Runs `npm ci` in test/bench unless what is installed is as new as the lock. */
export async function installPeers(): Promise<void> {
  const installed = `${FOLDER}node_modules/.package-lock.json`;
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(`${FOLDER}package-lock.json`).mtimeMs) return;
  console.error("bench: installing the peers");
  const npm = spawn("npm", ["ci", "--no-audit", "--no-fund"], { cwd: FOLDER, stdio: ["ignore", 2, 2] });
  const [code] = (await once(npm, "exit")) as [number | null];
  if (code !== 0) throw new Error(`npm ci in ${FOLDER} ended with ${code}; --no-peers measures perdure alone`);
}
