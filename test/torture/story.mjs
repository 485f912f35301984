// What the victim saves, step by step; its successor and its judge know it too.
export const STEPS = 6;
export const LARGE_FROM_BYTES = 20_000;
export const WRITE_TASK = "5e0c4dc4-2b7e-4c9b-8f43-4e4b8cf7a001";

const message = (i) => ({ i, text: `message ${i} `.padEnd(i % 2 === 0 ? 3_000 : 30_000, `${i}`) });

export function valuesOf(step) {
  return {
    log: Array.from({ length: step + 1 }, (_, i) => message(i)),
    kept: "from the first step ".repeat(100),
    step,
  };
}

export function versionsOf(step) {
  const version = (n) => `${String(n + 1).padStart(10, "0")}.000000000000001`;
  return { log: version(step), kept: version(0), step: version(step) };
}

/** What is put at a step: `ids` are those of the checkpoints. */
export function checkpointOf(ids, step) {
  const { kept, ...others } = versionsOf(step);
  return {
    checkpoint: {
      v: 4,
      ts: "2026-01-01T00:00:00.000Z",
      id: ids[step],
      channel_values: valuesOf(step),
      channel_versions: versionsOf(step),
      versions_seen: {},
    },
    metadata: { source: "loop", step, parents: {} },
    fresh: step === 0 ? { ...others, kept } : others,
  };
}

/** On the checkpoint of this step. */
export function writesOf(step) {
  return [
    ["log", [message(step + 1)]],
    ["step", step + 1],
  ];
}
