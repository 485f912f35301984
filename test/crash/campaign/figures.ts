// What a campaign comes to, in figures: what happened, what was broken, and each promise that was not kept.
import type { Report } from "./campaign.js";

/** What a campaign must have seen to say anything, from `LONG_MINUTES` on. */
const MINIMUM = { runs: 5_000, approvals: 1_000, effects: 2_000, kills: 300, databaseRestarts: 20 } as const;
const LONG_MINUTES = 20;

export type Figure = readonly [what: string, n: number];

/** What must be zero. */
function faults({ verdict }: Report): Figure[] {
  return [
    ["lost", verdict.lost.length],
    ["stuck", verdict.stuck.length],
    ["failed", verdict.failed.length],
    ["effects done twice", verdict.doneTwice.length],
    ["effects not done", verdict.notDone.length],
    ["effects done against a no", verdict.forbidden.length],
    ["calls that changed their key", verdict.keysChanged.length],
    ["messages lost or doubled", verdict.talk.wrong.length],
    ["times a limit was exceeded", verdict.overLimit.length],
    ["runs with a wrong priority", verdict.priorities.length],
    ["zombie writes", verdict.zombieWrites.length],
    ["questions decided twice", verdict.decidedTwice.length],
  ];
}

export function figures(report: Report): Figure[] {
  const { verdict, broken, cutOff, restSeconds } = report;
  return [
    ["runs", verdict.runs],
    ["approvals", verdict.approvals],
    ["effects", verdict.effects],
    ["… whose answer was cut off", cutOff],
    ["… in doubt, and asked about", verdict.doubts],
    ["runs of stock tool nodes", verdict.stock],
    ["messages of conversations", verdict.talk.turns],
    ["… merged with others", verdict.talk.merged],
    ["… whose run was interrupted", verdict.talk.interrupted],
    ["… whose run was rolled back", verdict.talk.takenBack],
    ["… refused", verdict.talk.refused],
    ["kills", broken.kills],
    ["freezes", broken.freezes],
    ["database restarts", broken.databaseRestarts],
    ["backends terminated", broken.terminatedBackends],
    ["times all connections were cut", broken.cuts],
    ["replies lost after the act", broken.lostReplies],
    ["clock jumps of a process", broken.clockJumps],
    ["clock jumps of the database", broken.databaseClockJumps],
    ["runs given up, and retried", verdict.retried],
    ["seconds to come to rest", Math.round(restSeconds)],
    ...faults(report),
  ];
}

/** Promises that were broken, each with up to five examples. */
export function violations({ verdict }: Report): string[] {
  const { lost, stuck, failed, doneTwice, notDone, forbidden, keysChanged, zombieWrites, decidedTwice } = verdict;
  const { overLimit, priorities, talk } = verdict;
  const acts = { doneTwice, notDone, forbidden, keysChanged };
  const all = { lost, stuck, failed, ...acts, zombieWrites, decidedTwice, overLimit, priorities, talk: talk.wrong };
  return Object.entries(all)
    .filter(([, found]) => found.length > 0)
    .map(([what, found]) => `${what}: ${found.length}, like ${found.slice(0, 5).join("; ")}`);
}

/** What there was too little of for a campaign of that length. */
export function shortfalls({ verdict, broken }: Report, minutes: number): string[] {
  if (minutes < LONG_MINUTES) return [];
  const { runs, approvals, effects } = verdict;
  const { kills, databaseRestarts } = broken;
  const had = { runs, approvals, effects, kills, databaseRestarts };
  return (Object.keys(MINIMUM) as (keyof typeof MINIMUM)[])
    .filter((what) => had[what] < MINIMUM[what])
    .map((what) => `too few ${what}: ${had[what]} of at least ${MINIMUM[what]}`);
}
