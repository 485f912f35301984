// What perdure aims at: each target with its figure, its peer's, and whether it holds. A figure is a ratio within one run
// wherever machines differ.
import { markdownTable, type Place, ratioOf, type Sample, show, valueOf } from "./report.js";

/** At least or at most so much; null: never asked for. */
export type Bound = Readonly<{ atLeast: number } | { atMost: number }>;

export type Target = Readonly<{
  name: string;
  /** Several: ways to run perdure, of which the better one counts. */
  ours: Place | readonly [Place, ...Place[]];
  /** What it is measured against; without one, the figure itself counts. */
  peer?: Place;
  must: Bound;
  aim: Bound;
}>;

export type Verdict = "aim" | "must" | "missed" | "n/a";

export type Judged = Readonly<{
  target: Target;
  ours: number | null;
  peer: number | null;
  figure: number | null;
  verdict: Verdict;
  /** Processors that others used meanwhile, on either side. */
  foreignCores: number | null;
}>;

export function judge(samples: readonly Sample[], target: Target): Judged {
  const places = Array.isArray(target.ours) ? (target.ours as readonly Place[]) : [target.ours as Place];
  return places.map((place) => judgeAt(samples, target, place)).reduce((a, b) => (isBetter(b, a) ? b : a));
}

function judgeAt(samples: readonly Sample[], target: Target, place: Place): Judged {
  const { peer: peerPlace, must, aim } = target;
  const ours = valueOf(samples, place);
  const peer = peerPlace === undefined ? null : valueOf(samples, peerPlace);
  const figure = peerPlace === undefined ? ours : ratioOf(samples, place, peerPlace);
  const verdict = figure === null ? "n/a" : holds(figure, aim) ? "aim" : holds(figure, must) ? "must" : "missed";
  return { target, ours, peer, figure, verdict, foreignCores: noiseOf(samples, [place, peerPlace ?? place]) };
}

function isBetter(one: Judged, than: Judged): boolean {
  if (one.figure === null || than.figure === null) return than.figure === null;
  return "atLeast" in one.target.must ? one.figure > than.figure : one.figure < than.figure;
}

function noiseOf(samples: readonly Sample[], places: readonly Place[]): number | null {
  const noises = places.flatMap((place) => valueOf(samples, { ...place, figure: "foreign cores" }) ?? []);
  return noises.length === 0 ? null : Math.max(...noises);
}

/** As exactly as figures and bounds are shown. */
function holds(figure: number, bound: Bound): boolean {
  const [shown, limit] = [figure, "atLeast" in bound ? bound.atLeast : bound.atMost].map((n) =>
    Number(n.toPrecision(3)),
  ) as [number, number];
  return "atLeast" in bound ? shown >= limit : shown <= limit;
}

export function targetTable(judged: readonly Judged[]): string {
  const rows = judged.map(({ target, ours, peer, figure, verdict, foreignCores }) => [
    target.name,
    show(ours),
    show(peer),
    target.peer === undefined ? "" : show(figure),
    showBound(target.must),
    showBound(target.aim),
    verdict,
    verdict === "n/a" ? "" : show(foreignCores),
  ]);
  return markdownTable([["target", "perdure", "peer", "ratio", "must", "aim", "holds", "foreign cores"], ...rows]);
}

function showBound(bound: Bound): string {
  return "atLeast" in bound ? `≥ ${bound.atLeast}` : `≤ ${Number(bound.atMost.toPrecision(3))}`;
}
