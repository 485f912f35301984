// Ends what a campaign started when the campaign itself has died, however it died: it reads from a pipe that closes with it.
// Lines: `started <pid>`, `ended <pid>`, `done`. The first argument is its folder, in which its Postgres has its data.
import { readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";

const [home] = process.argv.slice(2);
const running = new Set();
let isDone = false;

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const [what, pid] = line.split(" ");
    if (what === "started") running.add(Number(pid));
    else if (what === "ended") running.delete(Number(pid));
    else if (what === "done") isDone = true;
  })
  .on("close", () => {
    if (isDone) return;
    for (const pid of running) kill(pid);
    // Its children end with it.
    kill(postmaster());
    rmSync(home, { recursive: true, force: true, maxRetries: 20 });
  });

/** Frozen ones too. */
function kill(pid) {
  try {
    if (pid > 0) process.kill(pid, "SIGKILL");
  } catch {
    // It has just ended by itself.
  }
}

function postmaster() {
  try {
    return Number(readFileSync(path.join(home, "data/postmaster.pid"), "utf8").split("\n")[0]);
  } catch {
    return 0;
  }
}
