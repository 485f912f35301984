// `perdure schedules` and `perdure contacts`: their commands, and how what they take is read.
import type { Command } from "commander";
import { EngineError } from "../../core/errors.js";
import { SCHEDULE_STATUSES } from "../../schedule/schedules.js";
import { answering, choice, type Flag, type Flags, place, ROWS, text, whole } from "../command.js";
import type { Open } from "../open.js";

export function addSchedules(program: Command, open: Open): void {
  const schedules = program.command("schedules").description("whom a tenant writes to by itself, and when");
  answering(schedules, "ls", "list schedules by name")
    .option("--status <status>", `one of ${SCHEDULE_STATUSES.join(", ")}`)
    .option("--limit <number>", "how many", "50")
    .action(async (flags: Flags) => {
      const filter = {
        status: choice(flags.status, "--status", SCHEDULE_STATUSES),
        limit: whole(flags.limit, "--limit", ROWS) ?? 50,
      };
      const { schedulesLs } = await import("../schedules.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => schedulesLs(deps, filter, print));
    });
  answering(schedules, "show <schedule>", "one, by name or id: its last times, and what was made for whom").action(
    async (schedule: string, flags: Flags) => {
      const { schedulesShow } = await import("../schedules.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => schedulesShow(deps, schedule, print));
    },
  );
  const turns = [
    ["pause", "nothing of it goes out until it is resumed"],
    ["resume", "goes on with a paused one; what came meanwhile is left out"],
  ] as const;
  for (const [how, about] of turns) {
    answering(schedules, `${how} <schedule>`, about).action(async (schedule: string, flags: Flags) => {
      const { schedulesTurn } = await import("../schedules.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => schedulesTurn(deps, schedule, how, print));
    });
  }
  answering(schedules, "run <schedule>", "has it come now").action(async (schedule: string, flags: Flags) => {
    const { schedulesRun } = await import("../schedules.js");
    await open.parts(place(flags), { bodies: false }, ({ deps }, print) => schedulesRun(deps, schedule, print));
  });
  answering(schedules, "preview <schedule>", "its next times, and who gets it then or why not")
    .option("--times <number>", "how many times", "5")
    .option("--recipients <number>", "for so many recipients", "0")
    .action(async (schedule: string, flags: Flags) => {
      const size = {
        times: whole(flags.times, "--times", { min: 1, max: 50 }) ?? 5,
        recipients: whole(flags.recipients, "--recipients", { min: 0, max: 100 }) ?? 0,
      };
      const { schedulesPreview } = await import("../schedules.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) =>
        schedulesPreview(deps, schedule, size, print),
      );
    });
  answering(schedules, "backfill <schedule>", "has it come for the times of a stretch that is over")
    .requiredOption("--from <instant>", "like 2027-03-16T00:00:00Z")
    .requiredOption("--to <instant>", "the last one")
    .action(async (schedule: string, flags: Flags) => {
      const stretch = { from: instant(flags.from, "--from"), to: instant(flags.to, "--to") };
      const { schedulesBackfill } = await import("../schedules.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) =>
        schedulesBackfill(deps, schedule, stretch, print),
      );
    });
}

export function addContacts(program: Command, open: Open): void {
  const contacts = program.command("contacts").description("the people whom schedules write to");
  answering(contacts, "ls", "list contacts by key")
    .option("--limit <number>", "how many", "50")
    .action(async (flags: Flags) => {
      const limit = whole(flags.limit, "--limit", ROWS) ?? 50;
      const { contactsLs } = await import("../contacts.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => contactsLs(deps, limit, print));
    });
  answering(contacts, "suppress <key>", "writes nothing to them any more by itself, wherever they are reached")
    .option("--marketing", "only no marketing")
    .action(async (key: string, flags: Flags) => {
      const scope = flags.marketing === true ? "marketing" : "all";
      const { contactsSuppress } = await import("../contacts.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => contactsSuppress(deps, key, scope, print));
    });
}

function instant(flag: Flag, name: string): Date {
  const given = text(flag) ?? "";
  const at = new Date(given);
  if (/(?:Z|[+-]\d{2}:?\d{2})$/i.test(given) && !Number.isNaN(at.getTime())) return at;
  throw new EngineError("bad_request", `${name} must be an instant like 2027-03-16T00:00:00Z`);
}
