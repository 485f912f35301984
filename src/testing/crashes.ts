// Which attempts are to die where: an order for each, taken by the first attempt that comes there.
import type { Lease } from "../core/clock.js";
import type { CrashHook, CrashPoint } from "../engine/executor/crash-points.js";

export type Crashes = Readonly<{
  hook: CrashHook;
  /** The next attempt that comes to the point for the nth time dies there. */
  next(point: CrashPoint, nth: number): Promise<Lease>;
}>;

type Order = { point: CrashPoint; nth: number; seen: Map<string, number>; died: (lease: Lease) => void };

export function createCrashes(): Crashes {
  const orders = new Set<Order>();
  const dead = new Set<string>();
  return {
    hook(point, lease) {
      const attempt = `${lease.runId}:${lease.attempt}`;
      // It is dead: whatever its graph still tries comes to nothing.
      if (dead.has(attempt)) return true;
      for (const order of orders) {
        if (order.point !== point) continue;
        const seen = (order.seen.get(attempt) ?? 0) + 1;
        order.seen.set(attempt, seen);
        if (seen < order.nth) continue;
        orders.delete(order);
        dead.add(attempt);
        order.died(lease);
        return true;
      }
      return false;
    },
    next: (point, nth) =>
      new Promise((died) => {
        orders.add({ point, nth, seen: new Map(), died });
      }),
  };
}
