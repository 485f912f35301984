// The peers' packages have a lock of their own, so that the root's installation stays small. They are installed when needed.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL("../", import.meta.url));
/** Says which lock the installation is of. */
const MARK = `${FOLDER}node_modules/.installed-lock`;

/** Runs `npm ci` in test/bench unless what is installed there is what the lock says. */
export async function installPeers(): Promise<void> {
  const lock = createHash("sha256")
    .update(readFileSync(`${FOLDER}package-lock.json`))
    .digest("hex");
  if (existsSync(MARK) && readFileSync(MARK, "utf8") === lock) return;
  console.error("bench: installing the peers");
  const npm = spawn("npm", ["ci", "--no-audit", "--no-fund"], { cwd: FOLDER, stdio: ["ignore", 2, 2] });
  const [code] = (await once(npm, "exit")) as [number | null];
  if (code !== 0) throw new Error(`npm ci in ${FOLDER} ended with ${code}; --no-peers measures perdure alone`);
  writeFileSync(MARK, lock);
}
