// `perdure dev`, `start`, `api` and `worker`: processes that stay.
import { type Command, Option } from "commander";
import { command, type Flags, list, type Place, place, ROWS, text, whole } from "../command.js";

export type ServeOptions = Readonly<{
  command: "start" | "api" | "worker";
  host: string | null;
  port: number | null;
  concurrency: number | null;
  /** Null: all of them. */
  loops: readonly string[] | null;
  /** Whether it begins only when the process that started it says so. */
  supervised: boolean;
}>;

export type Serving = Readonly<{
  dev(
    at: Place,
    options: Readonly<{ host: string | null; port: number | null; workers: number; movableClock: boolean }>,
  ): Promise<void>;
  serve(at: Place, options: ServeOptions): Promise<void>;
  /** Executes one claim that the worker which started this process sends. */
  executeClaim(at: Place): Promise<void>;
}>;

/** The hidden command of processes that execute one claim. */
export const EXECUTE_CLAIM = "execute-claim";

const PORTS = { min: 0, max: 65_535 };

export function addServing(program: Command, serving: Serving): void {
  // Started by workers only, with a channel on which the claim comes.
  program
    .command(EXECUTE_CLAIM, { hidden: true })
    .requiredOption("--config <file>")
    .action((flags: Flags) => serving.executeClaim(place(flags)));
  command(
    program,
    "dev",
    "run everything on this machine, with a Postgres of its own, and follow changes of the graphs",
  )
    .option("--host <address>", "a loopback address to listen on")
    .option("--port <number>", "the port of the API (default: PORT or 2024)")
    .option("--workers <number>", "worker processes", "1")
    .option("--movable-clock", "time that the chat page can move on; a data dir that was begun with it keeps it")
    .action((flags: Flags) =>
      serving.dev(place(flags), {
        host: text(flags.host),
        port: whole(flags.port, "--port", PORTS),
        workers: whole(flags.workers, "--workers", { min: 0, max: 64 }) ?? 1,
        movableClock: flags.movableClock === true,
      }),
    );
  addServe(program, serving, "start", "serve the API and run all loops in one process, on DATABASE_URL");
  addServe(program, serving, "api", "serve the API only");
  addServe(
    program,
    serving,
    "worker",
    "run loops only: worker, scheduler, deliverer, receiver, mover, sweeper, pruner, indexer",
  );
}

function addServe(program: Command, serving: Serving, name: ServeOptions["command"], description: string): void {
  const built = command(program, name, description);
  if (name !== "worker") {
    built.option("--host <address>", "the address to listen on (default: HOST or 127.0.0.1)");
    built.option("--port <number>", "the port to listen on (default: PORT or 2024)");
  }
  if (name !== "api") {
    built.option("--concurrency <number>", "runs executed at a time (default: PERDURE_CONCURRENCY or 10)");
    built.option("--loops <names>", "which loops to run, like worker,scheduler (default: all)");
  }
  built.addOption(new Option("--supervised").hideHelp());
  built.action((flags: Flags) =>
    serving.serve(place(flags), {
      command: name,
      supervised: flags.supervised === true,
      host: text(flags.host),
      port: whole(flags.port, "--port", PORTS),
      concurrency: whole(flags.concurrency, "--concurrency", ROWS),
      loops: list(flags.loops),
    }),
  );
}
