// `perdure followups`: its commands, and how what they take is read.
import type { Command } from "commander";
import type { FollowupId, ThreadId } from "../../core/ids.js";
import { FOLLOWUP_STATUSES } from "../../schedule/followups.js";
import { idArgument } from "../arguments.js";
import { answering, choice, type Flags, place, ROWS, text, whole } from "../command.js";
import type { Open } from "../open.js";

export function addFollowups(program: Command, open: Open): void {
  const followups = program.command("followups").description("what agents have promised for later");
  answering(followups, "ls", "list follow-ups, newest first")
    .option("--thread <thread>", "those of a thread")
    .option("--status <status>", `one of ${FOLLOWUP_STATUSES.join(", ")}`)
    .option("--limit <number>", "how many", "50")
    .action(async (flags: Flags) => {
      const thread = text(flags.thread);
      const filter = {
        threadId: thread === null ? null : idArgument<ThreadId>(thread, "a thread"),
        status: choice(flags.status, "--status", FOLLOWUP_STATUSES),
        limit: whole(flags.limit, "--limit", ROWS) ?? 50,
      };
      const { followupsLs } = await import("../followups.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => followupsLs(deps, filter, print));
    });
  answering(followups, "cancel <followup>", "take one back").action(async (followup: string, flags: Flags) => {
    const followupId = idArgument<FollowupId>(followup, "a follow-up");
    const { followupsCancel } = await import("../followups.js");
    await open.parts(place(flags), { bodies: false }, ({ deps }, print) => followupsCancel(deps, followupId, print));
  });
}
