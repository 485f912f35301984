// The command line of the benchmark.
import { parseArgs } from "node:util";

export const PARTS = ["http", "latency", "queue", "streams", "workers", "long-threads"] as const;
export type PartName = (typeof PARTS)[number];

export type Arguments = Readonly<{
  quick: boolean;
  only: readonly PartName[];
  rounds: number;
  /** JSON lines are appended to it, besides standard output. */
  out: string | null;
  peers: boolean;
  /** Misses of a target's "must" make the exit code 1. */
  check: boolean;
}>;

export const USAGE = `npm run bench -- [options]
  --quick            less of everything, in one round: a look, not numbers to quote
  --only <parts>     of ${PARTS.join(", ")}; separated by commas
  --rounds <number>  everything so many times, interleaved (3, or 1 with --quick)
  --no-peers         measure perdure only
  --out <file>       append the JSON lines to a file
  --check            exit with 1 when a target is missed`;

/** Throws an Error that says what is wrong. */
export function readArguments(args: readonly string[]): Arguments {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: "boolean", default: false },
      only: { type: "string", default: PARTS.join(",") },
      rounds: { type: "string" },
      "no-peers": { type: "boolean", default: false },
      out: { type: "string" },
      check: { type: "boolean", default: false },
    },
  });
  const rounds = Number(values.rounds ?? (values.quick ? 1 : 3));
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error(`--rounds must be a whole number from 1`);
  return {
    quick: values.quick,
    only: values.only.split(",").map(partNamed),
    rounds,
    out: values.out ?? null,
    peers: !values["no-peers"],
    check: values.check,
  };
}

function partNamed(name: string): PartName {
  const found = PARTS.find((part) => part === name);
  if (found === undefined) throw new Error(`--only knows ${PARTS.join(", ")}, not ${name}`);
  return found;
}
