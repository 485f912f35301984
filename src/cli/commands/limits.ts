// `perdure limits`: its commands, and how what they take is read.
import type { Command } from "commander";
import { EngineError } from "../../core/errors.js";
import { PRIORITY_NAMES } from "../../core/run.js";
import type { LimitMax } from "../../runs/limits.js";
import { choiceArgument, wholeArgument } from "../arguments.js";
import { answering, type Flags, place } from "../command.js";
import type { Open } from "../open.js";

const RUNNING = { min: 0, max: 100_000 };

export function addLimits(program: Command, open: Open): void {
  const limits = program.command("limits").description("how many runs of a tenant or a graph are executed at a time");
  answering(limits, "ls", "list limits, and how many runs are executed now").action(async (flags: Flags) => {
    const { limitsLs } = await import("../limits.js");
    await open.parts(place(flags), { bodies: false }, ({ deps }, print) => limitsLs(deps, print));
  });
  answering(
    limits,
    "priority <tenant> <priority>",
    `the most urgent that runs of a tenant may be: ${PRIORITY_NAMES.join(", ")}`,
  ).action(async (tenant: string, priority: string, flags: Flags) => {
    const best = choiceArgument(priority, "<priority>", PRIORITY_NAMES);
    const { limitsPriority } = await import("../limits.js");
    await open.parts(place(flags), { bodies: false }, ({ deps }, print) => limitsPriority(deps, tenant, best, print));
  });
  for (const of of ["tenant", "graph"] as const) {
    answering(
      limits,
      `${of} <id> <max>`,
      `limit a ${of}, whatever langgraph.json says; "none": no limit, "default": as langgraph.json says`,
    ).action(async (id: string, most: string, flags: Flags) => {
      if (id.trim() === "") throw new EngineError("bad_request", `<id> must name a ${of}`);
      const limit = { of, id, max: maxOf(most) };
      const { limitsSet } = await import("../limits.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => limitsSet(deps, limit, print));
    });
  }
}

function maxOf(text: string): LimitMax {
  return text === "none" || text === "default" ? text : wholeArgument(text, "<max>", RUNNING);
}
