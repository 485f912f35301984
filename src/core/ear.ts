// Something that may be heard at any time: it is remembered until it is forgotten, and wakes who waits for it.
import type { Clock } from "./clock.js";

export type Ear = Readonly<{
  hear(): void;
  /** What is heard from here on is news. To be called before looking. */
  forget(): void;
  /** Resolves when something was heard, or after `ms`; true if it was. */
  wait(ms: number): Promise<boolean>;
}>;

/** Without a reason an error would be made for nobody. */
const NEWS = "news";

/** Of one that waits at a time. */
export function createEar(clock: Pick<Clock, "sleep">): Ear {
  let heard = false;
  let wake = new AbortController();
  return {
    hear() {
      heard = true;
      wake.abort(NEWS);
    },
    forget: () => void (heard = false),
    async wait(ms) {
      wake = new AbortController();
      if (!heard) await clock.sleep(Math.max(0, ms), wake.signal);
      return heard;
    },
  };
}
