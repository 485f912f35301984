// `perdure keys`: its commands, and how what they take is read.
import type { Command } from "commander";
import { type ApiKeyId, DEFAULT_TENANT, type TenantId } from "../../core/ids.js";
import { idArgument } from "../arguments.js";
import { answering, duration, type Flags, list, place, text } from "../command.js";
import type { Open } from "../open.js";

const KEEP_MS = 86_400_000;
const TENANT: readonly [flag: string, about: string] = ["--tenant <id>", "whose (default: default)"];

export function addKeys(program: Command, open: Open): void {
  const keys = program.command("keys").description("keys of the API: who holds one speaks for its tenant");
  answering(keys, "create <name>", "make a key; it is shown once")
    .option("--tenant <id>", "whose it is; a new one is made with it (default: default)")
    .option("--scopes <names>", "what it opens, like threads,assistants:read (default: *, everything)")
    .option("--expires <time>", "how long it lives, like 90d (default: until it is revoked)")
    .action(async (name: string, flags: Flags) => {
      const { keysCreate } = await import("../keys.js");
      const scopes = list(flags.scopes) ?? ["*"];
      const asked = { tenantId: tenantOf(flags), name, scopes, expiresInMs: duration(flags.expires, "--expires") };
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => keysCreate(deps, asked, print));
    });
  answering(keys, "ls", "list keys, those that are over too")
    .option("--tenant <id>", "only those of this tenant")
    .action(async (flags: Flags) => {
      const { keysLs } = await import("../keys.js");
      const filter = { tenantId: text(flags.tenant) as TenantId | null };
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => keysLs(deps, filter, print));
    });
  answering(keys, "rotate <key>", "make another key in its place; it is shown once, and the old one ends after a while")
    .option(...TENANT)
    .option("--keep <time>", "how long the old one still opens (default: 1d)")
    .action(async (key: string, flags: Flags) => {
      const { keysRotate } = await import("../keys.js");
      const asked = { ...keyOf(key, flags), keepMs: duration(flags.keep, "--keep") ?? KEEP_MS };
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => keysRotate(deps, asked, print));
    });
  answering(keys, "revoke <key>", "end a key now")
    .option(...TENANT)
    .action(async (key: string, flags: Flags) => {
      const { keysRevoke } = await import("../keys.js");
      const asked = keyOf(key, flags);
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => keysRevoke(deps, asked, print));
    });
}

function keyOf(key: string, flags: Flags) {
  return { tenantId: tenantOf(flags), apiKeyId: idArgument<ApiKeyId>(key, "a key") };
}

function tenantOf(flags: Flags): TenantId {
  return (text(flags.tenant) ?? DEFAULT_TENANT) as TenantId;
}
