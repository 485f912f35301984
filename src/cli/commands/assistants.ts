// `perdure assistants`: its commands, and how what they take is read.
import type { Command } from "commander";
import { OWN, refuseVersion, UNPINNED } from "../../core/pin.js";
import { answering, type Flags, place } from "../command.js";
import type { Open } from "../open.js";

const CURRENT = "current";

export function addAssistants(program: Command, open: Open): void {
  const assistants = program
    .command("assistants")
    .description("which version of its graph's code each assistant's runs are executed with");
  answering(
    assistants,
    "ls",
    "list assistants, their pins, and the runs that wait for a worker with that version",
  ).action(async (flags: Flags) => {
    const { assistantsLs } = await import("../assistants.js");
    await open.parts(place(flags), { bodies: false }, ({ deps }, print) => assistantsLs(deps, print));
  });
  answering(
    assistants,
    "pin <assistant> <version>",
    `execute its runs with one version only: as \`perdure graphs\` shows it, "${CURRENT}" for the one in this folder, or "${OWN}": each run stays with the one it begins with`,
  ).action(async (assistant: string, version: string, flags: Flags) => {
    if (version === CURRENT) return pinCurrent(open, assistant, flags);
    if (version !== OWN) refuseVersion(version, "<version>");
    await pin(open, assistant, version, flags);
  });
  answering(assistants, "latest <assistant>", "execute its runs with whatever version is there, as at first").action(
    (assistant: string, flags: Flags) => pin(open, assistant, UNPINNED, flags),
  );
}

async function pin(open: Open, assistant: string, version: string, flags: Flags): Promise<void> {
  const { assistantsPin } = await import("../assistants.js");
  await open.parts(place(flags), { bodies: false }, ({ deps }, print) =>
    assistantsPin(deps, assistant, version, print),
  );
}

async function pinCurrent(open: Open, idOrGraphId: string, flags: Flags): Promise<void> {
  const { assistantsPinCurrent } = await import("../assistants.js");
  await open.engine(place(flags), (engine, print) => assistantsPinCurrent(engine, idOrGraphId, print));
}
