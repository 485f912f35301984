// Channel versions of a stock thread as ours: `<counter>.<random>`. A stock version is a number, and the same one on two
// branches is one row; so the random part is fixed, and what goes on from here differs from it.
import { EngineError } from "../../core/errors.js";

export type Version = string | number;

const COUNTER = 10;
const RANDOM = 15;
const OURS = /^\d{10}\.\d{15}$/;
/** What other savers make of it when they keep branches apart. */
const COUNTED = /^0*(\d{1,10})(?:\.(.*))?$/s;

/**
 * Gives the version that stands for a stock one: larger for larger ones, and the same for the same. Throws
 * `value_unsupported` for what has no counter, and when two stock versions of the thread would become one.
 */
export function createVersionMap(): (version: Version) => string {
  const sources = new Map<string, string>();
  return (version) => {
    const text = String(version);
    const ours = OURS.test(text) ? text : counted(text);
    const other = sources.get(ours) ?? text;
    sources.set(ours, other);
    if (other === text) return ours;
    throw unsupported(`The channel versions ${quote(other)} and ${quote(text)}`, "can't be told apart here");
  };
}

function counted(text: string): string {
  const [, count, rest = ""] = COUNTED.exec(text) ?? [];
  if (count === undefined) throw unsupported(`The channel version ${quote(text)}`, "doesn't start with a counter");
  const digits = rest.replace(/\D/g, "").slice(0, RANDOM);
  return `${count.padStart(COUNTER, "0")}.${digits.padEnd(RANDOM, "0")}`;
}

function unsupported(what: string, why: string): EngineError {
  return new EngineError("value_unsupported", `${what} ${why}.`);
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 80));
}
