// The command line: which groups of commands there are. Each registers its own in commands/.
import { Command, CommanderError } from "commander";
import { addApprovals } from "./commands/approvals.js";
import { addAssistants } from "./commands/assistants.js";
import { addBudgets } from "./commands/budgets.js";
import { addDeliveries } from "./commands/deliveries.js";
import { addEffects } from "./commands/effects.js";
import { addFollowups } from "./commands/followups.js";
import { addKeys } from "./commands/keys.js";
import { addLimits } from "./commands/limits.js";
import { addPrune } from "./commands/prune.js";
import { addRuns } from "./commands/runs.js";
import { addServing, type Serving } from "./commands/serving.js";
import { addContacts, addSchedules } from "./commands/schedules.js";
import { addSetUp, type SetUp } from "./commands/set-up.js";
import { addThreads } from "./commands/threads.js";
import { addTimers } from "./commands/timers.js";
import type { Open } from "./open.js";

/** Parses the arguments and hands over to one command; returns the exit code when it was only about them. */
export async function runProgram(
  args: readonly string[],
  version: string,
  { serving, setUp, open }: Readonly<{ serving: Serving; setUp: SetUp; open: Open }>,
): Promise<number> {
  const program = new Command("perdure")
    .description("A durable run engine and Agent Server for LangGraph.js.")
    .version(version)
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, "perdure: ")) })
    .showHelpAfterError(false);
  program.addHelpText(
    "after",
    "\nSettings come from the environment: DATABASE_URL, PERDURE_BODIES … (see docs/configuration.md).",
  );
  let exitCode = 0;
  const onFailed = (): void => {
    exitCode = 1;
  };
  addServing(program, serving);
  addSetUp(program, setUp, open, onFailed);
  addAssistants(program, open);
  addRuns(program, open);
  addKeys(program, open);
  addLimits(program, open);
  addThreads(program, open, onFailed);
  addPrune(program, open);
  addTimers(program, open);
  addApprovals(program, open);
  addBudgets(program, open);
  addEffects(program, open);
  addFollowups(program, open);
  addSchedules(program, open);
  addContacts(program, open);
  addDeliveries(program, open);
  try {
    await program.parseAsync([...args], { from: "user" });
    return exitCode;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode === 0 ? 0 : 2;
  }
}
