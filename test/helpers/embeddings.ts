// A stand-in for a model of embeddings: knows a few words, and what they are about. The same text has the same vector, always.
import type { Embeddings } from "../../src/engine/store-index.js";

const ABOUT: readonly RegExp[] = [
  /\b(tea|coffee|pasta|eat\w*|drink\w*|hungry|food|breakfast)\b/gi,
  /\b(tennis|running|sport\w*|bike|ride\w*|cycling)\b/gi,
  /\b(piano|jazz|song\w*|music|sing\w*)\b/gi,
];
/** The last is for what it knows nothing of. */
export const DIMS = ABOUT.length + 1;

function vectorOf(text: string): number[] {
  const counts = ABOUT.map((words) => text.match(words)?.length ?? 0);
  return [...counts, counts.every((count) => count === 0) ? 1 : 0.1];
}

export type StandIn = Embeddings & Readonly<{ model: string; asked: string[][]; fails: (error: Error | null) => void }>;

/** Tells what it was asked, and fails when told to. */
export function standInEmbeddings(model = "stand-in", of: (text: string) => number[] = vectorOf): StandIn {
  const asked: string[][] = [];
  let failure: Error | null = null;
  const answer = (texts: string[]): number[][] => {
    asked.push(texts);
    if (failure !== null) throw failure;
    return texts.map(of);
  };
  return {
    ...{ model, asked },
    fails: (error) => (failure = error),
    embedDocuments: async (texts) => answer(texts),
    embedQuery: async (text) => answer([text])[0] ?? [],
  };
}
