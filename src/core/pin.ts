// Which code the runs of an assistant are executed with.
import { EngineError } from "./errors.js";

/** `latest`: any, as it is there. `own`: each run stays with the version it began with. Otherwise a version. */
export const UNPINNED = "latest";
export const OWN = "own";

const PIN = /^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$/;
/** What stands for something else where a pin is asked for. */
const RESERVED: ReadonlySet<string> = new Set([UNPINNED, OWN, "current"]);

/** Throws `bad_request` for what can't be a version of a graph's code; `path` says where it stood. */
export function refuseVersion(version: string, path: string): void {
  if (PIN.test(version) && !RESERVED.has(version)) return;
  const why = RESERVED.has(version) ? "is not the name of a version" : "can't be a version";
  throw new EngineError(
    "bad_request",
    `${path}: ${JSON.stringify(version.slice(0, 80))} ${why}; versions are up to 64 letters, digits, ".", "_", "+" and "-"`,
  );
}
