// Preloaded into each process of a campaign: its wall clock is as wrong as the file says, by so many ms. What is counted from a
// start (timers, performance.now) isn't, as on a machine whose clock was set.
import { readFileSync } from "node:fs";

const file = process.env["CAMPAIGN_CLOCK"];
const Real = globalThis.Date;
let offsetMs = 0;
let lookedMs = Number.NEGATIVE_INFINITY;

function now() {
  if (performance.now() - lookedMs > 50) {
    lookedMs = performance.now();
    offsetMs = Number(readFileSync(file, "utf8")) || 0;
  }
  return Real.now() + offsetMs;
}

if (file !== undefined) {
  globalThis.Date = new Proxy(Real, {
    get: (real, name) => (name === "now" ? now : Reflect.get(real, name)),
    apply: () => new Real(now()).toString(),
    construct: (real, args) => Reflect.construct(real, args.length === 0 ? [now()] : args),
  });
  Real.prototype.constructor = globalThis.Date;
}
