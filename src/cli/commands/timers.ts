// `perdure timers`: its commands, and how what they take is read.
import type { Command } from "commander";
import type { TimerRow } from "../../schedule/timers.js";
import { answering, choice, type Flags, place, ROWS, whole } from "../command.js";
import type { Open } from "../open.js";

const STATUSES = ["due", "fired", "cancelled"] as const satisfies readonly TimerRow["status"][];

export function addTimers(program: Command, open: Open): void {
  const timers = program.command("timers").description("what will happen at a time");
  answering(timers, "ls", "list timers, soonest first")
    .option("--status <status>", `one of ${STATUSES.join(", ")}`, "due")
    .option("--limit <number>", "how many", "50")
    .action(async (flags: Flags) => {
      const filter = {
        status: choice(flags.status, "--status", STATUSES),
        limit: whole(flags.limit, "--limit", ROWS) ?? 50,
      };
      const { timersLs } = await import("../timers.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => timersLs(deps, filter, print));
    });
}
