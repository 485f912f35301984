// The command line: which commands there are, what they take, and how what they take is read.
import { Command, CommanderError } from "commander";
import type { ApprovalRow } from "../approvals/approvals.js";
import { BUDGET_SCOPES, type BudgetScope, type Limits, type Price } from "../core/budget.js";
import { EngineError } from "../core/errors.js";
import { type ApprovalId, DEFAULT_TENANT, type RunId, type ThreadId } from "../core/ids.js";
import { PRUNED_OUTCOMES } from "../core/retention.js";
import type { RunStatus } from "../core/run.js";
import type { TimerRow } from "../schedule/timers.js";
import type { Answer } from "./approvals.js";
import type { AdoptFlags } from "./adopt.js";
import {
  amountArgument,
  choiceArgument,
  durationArgument,
  idArgument,
  jsonArgument,
  wholeArgument,
} from "./arguments.js";
import type { NewLimit } from "./limits.js";
import type { PruneFlags } from "./prune.js";

const RUN_STATUSES = [
  "pending",
  "running",
  "interrupted",
  "success",
  "error",
  "timeout",
] as const satisfies readonly RunStatus[];
const TIMER_STATUSES = ["due", "fired", "cancelled"] as const satisfies readonly TimerRow["status"][];
const APPROVAL_STATUSES = ["pending", "decided", "withdrawn"] as const satisfies readonly ApprovalRow["status"][];

/** Where things are: every command has these. */
export type Place = Readonly<{
  /** Null: langgraph.json in this folder, if there is one. */
  configPath: string | null;
  dataDir: string;
  json: boolean;
}>;

export type Handlers = Readonly<{
  dev(place: Place, options: Readonly<{ host: string | null; port: number | null; workers: number }>): Promise<void>;
  serve(
    place: Place,
    options: Readonly<{
      command: "start" | "api" | "worker";
      host: string | null;
      port: number | null;
      concurrency: number | null;
      /** Null: all of them. */
      loops: readonly string[] | null;
    }>,
  ): Promise<void>;
  /** Executes one claim that the worker which started this process sends. */
  executeClaim(place: Place): Promise<void>;
  migrate(place: Place): Promise<void>;
  /** True when all is well. */
  doctor(place: Place): Promise<boolean>;
  check(place: Place): Promise<boolean>;
  graphs(place: Place): Promise<void>;
  runsLs(
    place: Place,
    filter: Readonly<{
      status: RunStatus | null;
      threadId: ThreadId | null;
      graphId: string | null;
      needsAttention: boolean;
      limit: number;
    }>,
  ): Promise<void>;
  runsShow(place: Place, runId: RunId): Promise<void>;
  /** What happened to a run: as a story, or event by event. */
  runsLog(place: Place, how: "story" | "events", runId: RunId): Promise<void>;
  limitsLs(place: Place): Promise<void>;
  limitsSet(place: Place, limit: NewLimit): Promise<void>;
  /** What a person decides about a run that failed. */
  runsResolve(place: Place, how: "retry" | "close", runId: RunId, by: string | null): Promise<void>;
  budgetsLs(place: Place, filter: Readonly<{ limit: number }>): Promise<void>;
  budgetsSet(place: Place, budget: Readonly<{ scope: BudgetScope; refId: string }> & Limits): Promise<void>;
  pricesLs(place: Place): Promise<void>;
  pricesSet(place: Place, price: Price): Promise<void>;
  threadsHistory(place: Place, threadId: ThreadId, options: Readonly<{ limit: number }>): Promise<void>;
  threadsState(place: Place, threadId: ThreadId, options: Readonly<{ checkpointId: string | null }>): Promise<void>;
  /** True when every thread is here exactly as it was. */
  threadsAdopt(place: Place, from: string | null, flags: AdoptFlags): Promise<boolean>;
  prune(place: Place, flags: PruneFlags): Promise<void>;
  timersLs(place: Place, filter: Readonly<{ status: TimerRow["status"] | null; limit: number }>): Promise<void>;
  approvalsLs(place: Place, filter: Readonly<{ status: ApprovalRow["status"] | null; limit: number }>): Promise<void>;
  approvalsAnswer(
    place: Place,
    approvalId: ApprovalId,
    answer: Answer,
    by: string | null,
    roles: readonly string[],
  ): Promise<void>;
}>;

/** The hidden command of processes that execute one claim. */
export const EXECUTE_CLAIM = "execute-claim";

const PORTS = { min: 0, max: 65_535 };
const LIMITS = { min: 1, max: 10_000 };
const RUNNING = { min: 0, max: 100_000 };

/** Parses the arguments and hands over to one command; returns the exit code when it was only about them. */
export async function runProgram(args: readonly string[], version: string, handlers: Handlers): Promise<number> {
  const program = new Command("perdure")
    .description("A durable run engine and Agent Server for LangGraph.js.")
    .version(version)
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, "perdure: ")) })
    .showHelpAfterError(false);
  program.addHelpText(
    "after",
    "\nSettings come from the environment: DATABASE_URL, PERDURE_BODIES … (see the README).",
  );
  addServing(program, handlers);
  let exitCode = 0;
  const onFailed = (): void => {
    exitCode = 1;
  };
  addSetUp(program, handlers, onFailed);
  addRuns(program, handlers);
  addLimits(program, handlers);
  addThreads(program, handlers, onFailed);
  addPrune(program, handlers);
  addTimers(program, handlers);
  addApprovals(program, handlers);
  addBudgets(program, handlers);
  try {
    await program.parseAsync([...args], { from: "user" });
    return exitCode;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode === 0 ? 0 : 2;
  }
}

type Flags = Readonly<Record<string, string | boolean | undefined>>;

function command(parent: Command, name: string, description: string): Command {
  return parent
    .command(name)
    .description(description)
    .option("--config <file>", "the langgraph.json to use (default: ./langgraph.json)")
    .option("--data-dir <dir>", "where the development server keeps its data", ".perdure");
}

const withJson = (built: Command): Command => built.option("--json", "print JSON for programs");

function place(flags: Flags): Place {
  return { configPath: text(flags.config), dataDir: text(flags.dataDir) ?? ".perdure", json: flags.json === true };
}

function text(flag: string | boolean | undefined): string | null {
  return typeof flag === "string" ? flag : null;
}

function whole(flag: string | boolean | undefined, name: string, range: Readonly<{ min: number; max: number }>) {
  const given = text(flag);
  return given === null ? null : wholeArgument(given, name, range);
}

function choice<T extends string>(flag: string | boolean | undefined, name: string, choices: readonly T[]): T | null {
  const given = text(flag);
  return given === null ? null : choiceArgument(given, name, choices);
}

function durationOf(flag: string | boolean | undefined, name: string): number | null {
  const given = text(flag);
  return given === null ? null : durationArgument(given, name);
}

function addServing(program: Command, handlers: Handlers): void {
  // Started by workers only, with a channel on which the claim comes.
  program
    .command(EXECUTE_CLAIM, { hidden: true })
    .requiredOption("--config <file>")
    .action((flags: Flags) => handlers.executeClaim(place(flags)));
  command(
    program,
    "dev",
    "run everything on this machine, with a Postgres of its own, and follow changes of the graphs",
  )
    .option("--host <address>", "a loopback address to listen on")
    .option("--port <number>", "the port of the API (default: PORT or 2024)")
    .option("--workers <number>", "worker processes", "1")
    .action((flags: Flags) =>
      handlers.dev(place(flags), {
        host: text(flags.host),
        port: whole(flags.port, "--port", PORTS),
        workers: whole(flags.workers, "--workers", { min: 0, max: 64 }) ?? 1,
      }),
    );
  const serving = (name: "start" | "api" | "worker", description: string) => {
    const built = command(program, name, description);
    if (name !== "worker") {
      built.option("--host <address>", "the address to listen on (default: HOST or 127.0.0.1)");
      built.option("--port <number>", "the port to listen on (default: PORT or 2024)");
    }
    if (name !== "api") {
      built.option("--concurrency <number>", "runs executed at a time (default: PERDURE_CONCURRENCY or 10)");
      built.option("--loops <names>", "which loops to run, like worker,scheduler (default: all)");
    }
    built.action((flags: Flags) =>
      handlers.serve(place(flags), {
        command: name,
        host: text(flags.host),
        port: whole(flags.port, "--port", PORTS),
        concurrency: whole(flags.concurrency, "--concurrency", LIMITS),
        loops:
          text(flags.loops)
            ?.split(",")
            .map((loop) => loop.trim()) ?? null,
      }),
    );
  };
  serving("start", "serve the API and run all loops in one process, on DATABASE_URL");
  serving("api", "serve the API only");
  serving("worker", "run loops only: worker, scheduler, mover, sweeper, pruner");
}

function addSetUp(program: Command, handlers: Handlers, onUnhealthy: () => void): void {
  withJson(command(program, "migrate", "bring the database to this version")).action((flags: Flags) =>
    handlers.migrate(place(flags)),
  );
  withJson(command(program, "doctor", "find out whether this environment can work")).action(async (flags: Flags) => {
    if (!(await handlers.doctor(place(flags)))) onUnhealthy();
  });
  withJson(
    command(program, "check", "find out whether what is parked can go on with the graphs as they are now"),
  ).action(async (flags: Flags) => {
    if (!(await handlers.check(place(flags)))) onUnhealthy();
  });
  withJson(command(program, "graphs", "load the graphs and list them")).action((flags: Flags) =>
    handlers.graphs(place(flags)),
  );
}

function addRuns(program: Command, handlers: Handlers): void {
  const runs = program.command("runs").description("what ran, and what became of it");
  withJson(command(runs, "ls", "list runs, newest first"))
    .option("--status <status>", `one of ${RUN_STATUSES.join(", ")}`)
    .option("--thread <id>", "runs of one thread")
    .option("--graph <id>", "runs of one graph")
    .option("--needs-attention", "only those that failed and wait for a person")
    .option("--limit <number>", "how many", "20")
    .action((flags: Flags) => {
      const thread = text(flags.thread);
      return handlers.runsLs(place(flags), {
        status: choice(flags.status, "--status", RUN_STATUSES),
        threadId: thread === null ? null : idArgument<ThreadId>(thread, "a thread"),
        graphId: text(flags.graph),
        needsAttention: flags.needsAttention === true,
        limit: whole(flags.limit, "--limit", LIMITS) ?? 20,
      });
    });
  withJson(command(runs, "show <run>", "show a run and its events")).action((run: string, flags: Flags) =>
    handlers.runsShow(place(flags), idArgument<RunId>(run, "a run")),
  );
  const telling = (how: "story" | "events", description: string) =>
    withJson(command(runs, `${how} <run>`, description)).action((run: string, flags: Flags) =>
      handlers.runsLog(place(flags), how, idArgument<RunId>(run, "a run")),
    );
  telling("story", "tell what happened to a run, and what it waits for");
  telling("events", "list the events and checkpoints of a run");
  const resolving = (how: "retry" | "close", description: string) =>
    withJson(command(runs, `${how} <run>`, description))
      .option("--as <name>", "who decides (default: this machine's user)")
      .action((run: string, flags: Flags) =>
        handlers.runsResolve(place(flags), how, idArgument<RunId>(run, "a run"), text(flags.as)),
      );
  resolving("retry", "go on with a run that ended in error, from its last checkpoint");
  resolving("close", "leave a run that waits for a person as it is");
}

function addBudgets(program: Command, handlers: Handlers): void {
  const budgets = program.command("budgets").description("what runs, threads and days may spend");
  withJson(command(budgets, "ls", "list the budgets that were set, the latest first"))
    .option("--limit <number>", "how many", "50")
    .action((flags: Flags) => handlers.budgetsLs(place(flags), { limit: whole(flags.limit, "--limit", LIMITS) ?? 50 }));
  const amount = (flag: string | boolean | undefined, name: string): number | null => {
    const given = text(flag);
    return given === null ? null : amountArgument(given, name);
  };
  withJson(command(budgets, "set <scope> [id]", "set what a run or thread, or the tenant in a day, may spend"))
    .option("--cost <amount>", "at most, in the currency of the prices")
    .option("--tokens <number>", "at most, in and out")
    .option("--steps <number>", "of a run: supersteps at most")
    .option("--active <time>", "of a run: time on workers at most, like 90s or 10m")
    .action((scope: string, id: string | undefined, flags: Flags) => {
      const of = choiceArgument(scope, "<scope>", BUDGET_SCOPES);
      if (of === "day" && id !== undefined) throw new EngineError("bad_request", "the budget of a day takes no id");
      const refId = of === "day" ? DEFAULT_TENANT : idArgument<string>(id ?? "", `a ${of}`);
      const most = { min: 0, max: 999_999_999 };
      return handlers.budgetsSet(place(flags), {
        scope: of,
        refId,
        cost: amount(flags.cost, "--cost"),
        tokens: whole(flags.tokens, "--tokens", most),
        steps: whole(flags.steps, "--steps", most),
        activeMs: durationOf(flags.active, "--active"),
      });
    });
  withJson(command(budgets, "prices", "list what models cost per million tokens")).action((flags: Flags) =>
    handlers.pricesLs(place(flags)),
  );
  withJson(command(budgets, "price <model>", "set what models whose names begin so cost per million tokens"))
    .requiredOption("--input <amount>", "that go in")
    .requiredOption("--output <amount>", "that come out")
    .action((model: string, flags: Flags) =>
      handlers.pricesSet(place(flags), {
        model,
        inputCost: amount(flags.input, "--input") ?? 0,
        outputCost: amount(flags.output, "--output") ?? 0,
      }),
    );
}

function addLimits(program: Command, handlers: Handlers): void {
  const limits = program.command("limits").description("how many runs of a tenant or a graph are executed at a time");
  withJson(command(limits, "ls", "list limits, and how many runs are executed now")).action((flags: Flags) =>
    handlers.limitsLs(place(flags)),
  );
  for (const of of ["tenant", "graph"] as const) {
    withJson(command(limits, `${of} <id> <max>`, `limit a ${of}; "none" lifts its limit`)).action(
      (id: string, max: string, flags: Flags) =>
        handlers.limitsSet(place(flags), { of, id, max: max === "none" ? null : wholeArgument(max, "<max>", RUNNING) }),
    );
  }
}

function addThreads(program: Command, handlers: Handlers, onFailed: () => void): void {
  const threads = program.command("threads").description("the state of a conversation, now and at each step");
  withJson(command(threads, "history <thread>", "list the checkpoints of a thread, newest first"))
    .option("--limit <number>", "how many", "20")
    .action((thread: string, flags: Flags) =>
      handlers.threadsHistory(place(flags), idArgument<ThreadId>(thread, "a thread"), {
        limit: whole(flags.limit, "--limit", LIMITS) ?? 20,
      }),
    );
  withJson(command(threads, "state <thread>", "show the state of a thread"))
    .option("--checkpoint <id>", "as it was at this checkpoint")
    .action((thread: string, flags: Flags) => {
      const checkpoint = text(flags.checkpoint);
      return handlers.threadsState(place(flags), idArgument<ThreadId>(thread, "a thread"), {
        checkpointId: checkpoint === null ? null : idArgument<string>(checkpoint, "a checkpoint"),
      });
    });
  const each = (id: string, ids: readonly string[] | undefined): readonly string[] => [...(ids ?? []), id];
  withJson(command(threads, "adopt", "bring over the threads of LangGraph's PostgresSaver"))
    .option("--from <source>", "a schema, or a URL like postgres://host/name#schema (default: PERDURE_ADOPT_FROM)")
    .option("--graph <id>", "which graph they are of (default: the only one)")
    .option("--thread <id>", "only this one, by its id there; may be repeated", each)
    .option("--dry-run", "look at everything and write nothing")
    .action(async ({ thread, ...flags }: Flags & { thread: readonly string[] | undefined }) => {
      const adopt = { graphId: text(flags.graph), threadIds: thread ?? null, dryRun: flags.dryRun === true };
      if (!(await handlers.threadsAdopt(place(flags), text(flags.from), adopt))) onFailed();
    });
}

function addPrune(program: Command, handlers: Handlers): void {
  const named = 'like "success,error"';
  withJson(
    command(program, "prune", "forget old states and what only they needed; without options as langgraph.json says"),
  )
    .option("--keep-latest <number>", "how many of the newest states of each branch stay (default: 1)")
    .option("--older-than <time>", "only states older than this go, like 12h, 30d or 8w")
    .option("--outcome <names>", `only what runs with these outcomes left goes, ${named}`)
    .option("--thread <id>", "one thread")
    .option("--graph <id>", "threads of one graph")
    .option("--dry-run", "only say what would go")
    .action((flags: Flags) => {
      const thread = text(flags.thread);
      const outcomes = text(flags.outcome)?.split(",");
      return handlers.prune(place(flags), {
        keepLatest: whole(flags.keepLatest, "--keep-latest", { min: 1, max: 1_000_000 }),
        olderThanMs: durationOf(flags.olderThan, "--older-than"),
        outcomes: outcomes?.map((name) => choiceArgument(name.trim(), "--outcome", PRUNED_OUTCOMES)) ?? null,
        threadId: thread === null ? null : idArgument<ThreadId>(thread, "a thread"),
        graphId: text(flags.graph),
        dryRun: flags.dryRun === true,
      });
    });
}

function addTimers(program: Command, handlers: Handlers): void {
  const timers = program.command("timers").description("what will happen at a time");
  withJson(command(timers, "ls", "list timers, soonest first"))
    .option("--status <status>", `one of ${TIMER_STATUSES.join(", ")}`, "due")
    .option("--limit <number>", "how many", "50")
    .action((flags: Flags) =>
      handlers.timersLs(place(flags), {
        status: choice(flags.status, "--status", TIMER_STATUSES),
        limit: whole(flags.limit, "--limit", LIMITS) ?? 50,
      }),
    );
}

function addApprovals(program: Command, handlers: Handlers): void {
  const approvals = program.command("approvals").description("questions that wait for a person");
  withJson(command(approvals, "ls", "list approvals, oldest first"))
    .option("--status <status>", `one of ${APPROVAL_STATUSES.join(", ")}`, "pending")
    .option("--limit <number>", "how many", "50")
    .action((flags: Flags) =>
      handlers.approvalsLs(place(flags), {
        status: choice(flags.status, "--status", APPROVAL_STATUSES),
        limit: whole(flags.limit, "--limit", LIMITS) ?? 50,
      }),
    );
  const answering = (name: "approve" | "reject", description: string) =>
    withJson(command(approvals, `${name} <approval>`, description))
      .option("--value <json>", "the whole answer, when the question wants another than yes or no")
      .option("--as <name>", "who decides (default: this machine's user)")
      .option("--role <names>", "what they are, separated by commas, where a question is for some only");
  const answer = (flags: Flags, otherwise: Answer): Answer => {
    const value = text(flags.value);
    return value === null ? otherwise : { kind: "value", value: jsonArgument(value, "--value") };
  };
  const roles = (flags: Flags): string[] =>
    text(flags.role)
      ?.split(",")
      .map((role) => role.trim()) ?? [];
  answering("approve", "answer yes").action((id: string, flags: Flags) =>
    handlers.approvalsAnswer(
      place(flags),
      idArgument<ApprovalId>(id, "an approval"),
      answer(flags, { kind: "approve" }),
      text(flags.as),
      roles(flags),
    ),
  );
  answering("reject", "answer no")
    .option("--message <text>", "why, for the agent")
    .action((id: string, flags: Flags) =>
      handlers.approvalsAnswer(
        place(flags),
        idArgument<ApprovalId>(id, "an approval"),
        answer(flags, { kind: "reject", message: text(flags.message) }),
        text(flags.as),
        roles(flags),
      ),
    );
}
