// What attempts of this process have just stored, for who follows their runs here: they get it without asking the database. What one
// doesn't take in time it reads, as all do in other processes.
import type { RunId } from "../../core/ids.js";
import type { StreamLine } from "../../runs/stream-chunks.js";

export type LiveAttempt = Readonly<{
  /** Lines that are stored, in order. */
  tell(lines: readonly StreamLine[]): void;
  /** Whatever comes after this is read. May be called again. */
  close(): void;
}>;

export type Follower = Readonly<{
  /** An attempt of the run is at work here: what it stores is told. */
  isHere(): boolean;
  /** The lines that come next after this one, each once; none when there is a gap before them. */
  take(afterId: number): readonly StreamLine[];
  close(): void;
}>;

export type Live = Readonly<{
  attempt(runId: RunId): LiveAttempt;
  /** `onNews`: there is something to be taken, or read. */
  follow(runId: RunId, onNews: () => void): Follower;
}>;

/** What is kept for one follower. */
const KEPT_CHARS = 1024 * 1024;

type Waiting = { lines: StreamLine[]; chars: number; readonly onNews: () => void };
type Run = { attempts: number; readonly followers: Set<Waiting> };

export function createLive(): Live {
  const runs = new Map<RunId, Run>();
  const runOf = (runId: RunId): Run => {
    const run = runs.get(runId) ?? { attempts: 0, followers: new Set() };
    runs.set(runId, run);
    return run;
  };
  const forget = (runId: RunId, run: Run): void => {
    if (run.attempts === 0 && run.followers.size === 0 && runs.get(runId) === run) runs.delete(runId);
  };

  return {
    attempt(runId) {
      const run = runOf(runId);
      run.attempts += 1;
      let open = true;
      return {
        tell(lines) {
          if (!open) return;
          for (const follower of run.followers) keep(follower, lines);
        },
        close() {
          if (!open) return;
          open = false;
          run.attempts -= 1;
          forget(runId, run);
        },
      };
    },
    follow(runId, onNews) {
      const run = runOf(runId);
      const waiting: Waiting = { lines: [], chars: 0, onNews };
      run.followers.add(waiting);
      return {
        isHere: () => run.attempts > 0,
        take: (afterId) => nextOf(empty(waiting), afterId),
        close() {
          run.followers.delete(waiting);
          forget(runId, run);
        },
      };
    },
  };
}

function keep(follower: Waiting, lines: readonly StreamLine[]): void {
  for (const { event, json } of lines) follower.chars += event.length + json.length;
  // Too slow for what is kept: it reads.
  if (follower.chars > KEPT_CHARS) empty(follower);
  else follower.lines.push(...lines);
  follower.onNews();
}

function empty(follower: Waiting): StreamLine[] {
  const { lines } = follower;
  follower.lines = [];
  follower.chars = 0;
  return lines;
}

function nextOf(lines: readonly StreamLine[], afterId: number): readonly StreamLine[] {
  const fresh = lines.filter(({ id }) => id > afterId);
  return fresh.every(({ id }, i) => id === afterId + 1 + i) ? fresh : [];
}
