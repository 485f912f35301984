// Writes the content of a thread's finished and waiting runs into a pack: request, error and stream, in which everything
// long is a body of the thread, under the name it has in its states. What the thread has already is not written again.
import type { Deps } from "../core/deps.js";
import { createJsonKeeper } from "../checkpoint/kept-json.js";
import { heldBodies, type ThreadKey } from "../checkpoint/move-queries.js";
import type { BodyNode } from "../checkpoint/ops.js";
import type { PackWriter } from "../checkpoint/pack.js";
import type { PackReader, RunRecord } from "../checkpoint/pack-types.js";
import { resultsOfRun, runsWithResults } from "../effects/queries.js";
import { movableRuns, type MovableRun, type PlacedRun, streamRowsAfter } from "../runs/content.js";
import type { RunId } from "../core/ids.js";
import { parseLines, type StreamLine } from "../runs/stream-chunks.js";
import { readRunRecord } from "./run-content.js";

/** How many runs or stream rows are read at a time: bounds what is held in memory. */
const PAGE = 32;

/** The part of a gathering that runs need. */
export type GatheringRuns = {
  readonly deps: Deps;
  readonly key: ThreadKey;
  readonly options: Readonly<{ packs: PackReader }>;
  readonly writer: PackWriter;
  bytesLeft: number;
  readonly nodes: { hash: Buffer; block: number }[];
  /** Bodies that records in the pack name and that are elsewhere: they must still be there when the pack is placed. */
  readonly relied: Buffer[];
  readonly runs: PlacedRun[];
  /** The effects whose results are in the records of those runs. */
  readonly effects: { runId: RunId; key: string }[];
  /** What can't be read stays where it is and stops nothing else. */
  readable<T>(read: () => Promise<T>): Promise<T | undefined>;
};

export async function gatherRuns(into: GatheringRuns): Promise<"all" | "some"> {
  if (into.bytesLeft <= 0) return "some";
  const keeper = createJsonKeeper();
  const withResults = await runsWithResults(into.deps.db, into.key);
  const runs = await movableRuns(into.deps.db, { ...into.key, withResults }, PAGE);
  for (const run of runs) {
    if (into.bytesLeft <= 0) return "some";
    const hasResults = withResults.includes(run.runId);
    const placed = await into.readable(() => writeRun(into, keeper, { ...run, hasResults }));
    if (placed) into.runs.push({ runId: run.runId, status: run.status, attempt: run.attempt, ...placed });
  }
  return runs.length < PAGE ? "all" : "some";
}

type Keeper = ReturnType<typeof createJsonKeeper>;

/** Writes the run in parts, so that no long stream is held in memory as a whole. */
async function writeRun(
  into: GatheringRuns,
  keeper: Keeper,
  run: MovableRun & Readonly<{ hasResults: boolean }>,
): Promise<Readonly<{ lastId: number; block: number }>> {
  const { deps, key, options, writer } = into;
  const keep = (json: string | null) => (json === null ? null : keeper.keep(json));
  let request = keep(run.request?.toString("utf8") ?? null);
  let error = keep(run.error?.toString("utf8") ?? null);
  const results = run.hasResults ? await resultsOfRun(deps.db, { tenantId: key.tenantId, runId: run.runId }) : [];
  let effects = results.map((each) => resultText(each.key, keeper.keep(each.result.toString("utf8"))));
  let block: number | undefined;
  let lastId = -1;
  const add = async (stream: readonly string[], more: boolean) => {
    await addBodies(into, keeper.takeBodies());
    const placed = await writer.addRun({ runId: run.runId, request, error, stream, effects, more });
    block ??= placed;
    const texts = [request ?? "", error ?? "", ...stream, ...effects];
    into.bytesLeft -= texts.reduce((sum, text) => sum + text.length, 0);
    request = error = null;
    effects = [];
  };
  // A run that was moved before, while it slept: its record is written again, with what came since.
  for await (const part of run.moved ? readRunRecord(deps, options.packs, key.tenantId, run.runId, run.moved) : []) {
    const again = (value: unknown) => (value === null || value === undefined ? null : keptAgain(keeper, part, value));
    if (block === undefined) {
      request ??= again(part.request);
      error ??= again(part.error);
    }
    lastId = part.stream.at(-1)?.id ?? lastId;
    effects.push(...(part.effects ?? []).map((each) => resultText(each.key, again(each.result) ?? "null")));
    await add(
      part.stream.map(({ id, event, data }) => eventText(id, event, keptAgain(keeper, part, data))),
      true,
    );
  }
  for (let full = true; full; ) {
    const page = { tenantId: key.tenantId, runId: run.runId, afterId: lastId, limit: PAGE };
    const rows = await streamRowsAfter(deps.db, page);
    full = rows.length === PAGE;
    lastId = rows.at(-1)?.lastId ?? lastId;
    const lines = rows.flatMap((row): StreamLine[] => parseLines(row.lines));
    await add(
      lines.map(({ id, event, json }) => eventText(id, event, keeper.keep(json))),
      full,
    );
  }
  into.effects.push(...results.map((each) => ({ runId: run.runId, key: each.key })));
  return { lastId, block: block ?? 0 };
}

/** A value of a record that is written again: kept as it is, or, from a record of before there were bodies in them, now. */
function keptAgain(keeper: Keeper, part: RunRecord, value: unknown): string {
  const text = JSON.stringify(value);
  return part.f === 1 ? text : keeper.keep(text);
}

function resultText(key: string, result: string): string {
  return `{"key":${JSON.stringify(key)},"result":${result}}`;
}

function eventText(id: number, event: string, data: string): string {
  return `{"id":${id},"event":${JSON.stringify(event)},"data":${data}}`;
}

/** Bodies that records of the pack name: what the thread doesn't have goes into the pack before them. */
export async function addBodies(
  into: Pick<GatheringRuns, "deps" | "key" | "writer" | "nodes" | "relied" | "bytesLeft">,
  bodies: readonly BodyNode[],
): Promise<void> {
  if (bodies.length === 0) return;
  const held = await heldBodies(
    into.deps.db,
    into.key,
    bodies.map(({ hash }) => hash),
  );
  for (const { key, hash, kind, data } of bodies) {
    if (held.has(key)) {
      into.relied.push(hash);
      continue;
    }
    into.nodes.push({ hash, block: await into.writer.addNode({ hash, kind, data }) });
    into.bytesLeft -= data.length;
  }
}
