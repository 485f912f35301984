// `perdure budgets`: its commands, and how what they take is read.
import type { Command } from "commander";
import { BUDGET_SCOPES, type BudgetScope, type Limits } from "../../core/budget.js";
import { EngineError } from "../../core/errors.js";
import { DEFAULT_TENANT } from "../../core/ids.js";
import { amountArgument, choiceArgument, idArgument } from "../arguments.js";
import { answering, duration, type Flag, type Flags, place, ROWS, text, whole } from "../command.js";
import type { Open } from "../open.js";

const MOST = { min: 0, max: 999_999_999 };

export function addBudgets(program: Command, open: Open): void {
  const budgets = program.command("budgets").description("what runs, threads and days may spend");
  answering(budgets, "ls", "list the budgets that were set, the latest first")
    .option("--limit <number>", "how many", "50")
    .action(async (flags: Flags) => {
      const limit = whole(flags.limit, "--limit", ROWS) ?? 50;
      const { budgetsLs } = await import("../budgets.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => budgetsLs(deps, { limit }, print));
    });
  addSet(budgets, open);
  addPrices(budgets, open);
}

function addSet(budgets: Command, open: Open): void {
  answering(budgets, "set <scope> [id]", "set what a run or thread, or the tenant in a day, may spend")
    .option("--cost <amount>", "at most, in the currency of the prices")
    .option("--tokens <number>", "at most, in and out")
    .option("--steps <number>", "of a run: supersteps at most")
    .option("--active <time>", "of a run: time on workers at most, like 90s or 10m")
    .action(async (scope: string, id: string | undefined, flags: Flags) => {
      const of = choiceArgument(scope, "<scope>", BUDGET_SCOPES);
      if (of === "day" && id !== undefined) throw new EngineError("bad_request", "the budget of a day takes no id");
      const budget = {
        scope: of,
        refId: of === "day" ? DEFAULT_TENANT : idArgument<string>(id ?? "", `a ${of}`),
        cost: amount(flags.cost, "--cost"),
        tokens: whole(flags.tokens, "--tokens", MOST),
        steps: whole(flags.steps, "--steps", MOST),
        activeMs: duration(flags.active, "--active"),
      };
      refuseUnmeant(budget);
      const { budgetsSet } = await import("../budgets.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => budgetsSet(deps, budget, print));
    });
}

/** Nothing given would lift the limits of langgraph.json; and only runs are measured in steps and time. */
function refuseUnmeant({ scope, cost, tokens, steps, activeMs }: Readonly<{ scope: BudgetScope }> & Limits): void {
  if (scope !== "run" && (steps ?? activeMs) !== null) {
    throw new EngineError("bad_request", `--steps and --active are for runs, not for a ${scope}`);
  }
  if ((cost ?? tokens ?? steps ?? activeMs) === null) {
    throw new EngineError("bad_request", "say what it may spend: --cost, --tokens, and for a run --steps or --active");
  }
}

function addPrices(budgets: Command, open: Open): void {
  answering(budgets, "prices", "list what models cost per million tokens").action(async (flags: Flags) => {
    const { pricesLs } = await import("../budgets.js");
    await open.parts(place(flags), { bodies: false }, ({ deps }, print) => pricesLs(deps, print));
  });
  answering(budgets, "price <model>", "set what models whose names begin so cost per million tokens")
    .requiredOption("--input <amount>", "that go in")
    .requiredOption("--output <amount>", "that come out")
    .action(async (model: string, flags: Flags) => {
      const inputCost = amount(flags.input, "--input") ?? 0;
      if (model.trim() === "")
        throw new EngineError("bad_request", "<model> must name a model, or how its name begins");
      const price = { model, inputCost, outputCost: amount(flags.output, "--output") ?? 0 };
      const { pricesSet } = await import("../budgets.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => pricesSet(deps, price, print));
    });
}

function amount(flag: Flag, name: string): number | null {
  const given = text(flag);
  return given === null ? null : amountArgument(given, name);
}
