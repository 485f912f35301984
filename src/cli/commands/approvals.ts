// `perdure approvals`: its commands, and how what they take is read.
import { userInfo } from "node:os";
import type { Command } from "commander";
import { LISTED } from "../../approvals/approvals.js";
import type { ApprovalId } from "../../core/ids.js";
import type { Answer } from "../approvals.js";
import { idArgument, jsonArgument } from "../arguments.js";
import { answering, choice, type Flags, list, place, ROWS, text, whole } from "../command.js";
import type { Open } from "../open.js";

export function addApprovals(program: Command, open: Open): void {
  const approvals = program.command("approvals").description("questions that wait for a person");
  answering(approvals, "ls", "list approvals, oldest first")
    .option("--status <status>", `one of ${LISTED.join(", ")}`, "pending")
    .option("--limit <number>", "how many", "50")
    .action(async (flags: Flags) => {
      const filter = {
        status: choice(flags.status, "--status", LISTED),
        limit: whole(flags.limit, "--limit", ROWS) ?? 50,
      };
      const { approvalsLs } = await import("../approvals.js");
      await open.engine(place(flags), (engine, print) => approvalsLs(engine, filter, print));
    });
  addAnswer(approvals, open, "approve", "answer yes", () => ({ kind: "approve" }));
  addAnswer(approvals, open, "reject", "answer no", (flags) => ({
    kind: "reject",
    message: text(flags.message),
  })).option("--message <text>", "why, for the agent");
}

function addAnswer(
  approvals: Command,
  open: Open,
  name: "approve" | "reject",
  description: string,
  plain: (flags: Flags) => Answer,
): Command {
  return answering(approvals, `${name} <approval>`, description)
    .option("--value <json>", "the whole answer, when the question wants another than yes or no")
    .option("--as <name>", "who decides (default: this machine's user)")
    .option("--role <names>", "what they are, separated by commas, where a question is for some only")
    .action(async (id: string, flags: Flags) => {
      const value = text(flags.value);
      const decision = {
        approvalId: idArgument<ApprovalId>(id, "an approval"),
        answer: value === null ? plain(flags) : ({ kind: "value", value: jsonArgument(value, "--value") } as const),
        decidedBy: text(flags.as) ?? userInfo().username,
        roles: list(flags.role) ?? [],
      };
      const { approvalsAnswer } = await import("../approvals.js");
      await open.engine(place(flags), (engine, print) => approvalsAnswer(engine, decision, print));
    });
}
