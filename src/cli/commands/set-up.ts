// `perdure migrate`, `doctor`, `check` and `graphs`: what is asked before something runs.
import type { Command } from "commander";
import { answering, type Flags, type Place, place } from "../command.js";
import type { Open } from "../open.js";

export type SetUp = Readonly<{
  migrate(at: Place): Promise<void>;
  /** True when all is well. */
  doctor(at: Place): Promise<boolean>;
  graphs(at: Place): Promise<void>;
}>;

export function addSetUp(program: Command, setUp: SetUp, open: Open, onFailed: () => void): void {
  answering(program, "migrate", "bring the database to this version").action((flags: Flags) =>
    setUp.migrate(place(flags)),
  );
  answering(program, "doctor", "find out whether this environment can work").action(async (flags: Flags) => {
    if (!(await setUp.doctor(place(flags)))) onFailed();
  });
  answering(program, "check", "find out whether what is parked can go on with the graphs as they are now").action(
    async (flags: Flags) => {
      const { check } = await import("../check.js");
      if (!(await open.engine(place(flags), check))) onFailed();
    },
  );
  answering(program, "graphs", "load the graphs and list them").action((flags: Flags) => setUp.graphs(place(flags)));
}
