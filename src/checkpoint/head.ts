// The head of a checkpoint: what is neither a channel's value nor a column, as JSON text that names no bodies.
import type { Checkpoint } from "@langchain/langgraph-checkpoint";
import { EngineError } from "../core/errors.js";
import type { Decoder } from "./codec/decoder.js";
import { encodeInline } from "./codec/encoder.js";

const FORMAT = 1;

type Fields = Readonly<Record<string, unknown>>;

export type Head = Readonly<{
  checkpoint: Omit<Checkpoint, "id" | "channel_values" | "channel_versions">;
  metadata: Fields;
  /** Channels whose version is a number: columns hold text. */
  numeric: readonly string[];
}>;

/** `metadata` is its text. */
export function headText(checkpoint: Checkpoint, metadata: string): string {
  const { id: _, channel_values: __, channel_versions, ...rest } = checkpoint;
  const numeric = Object.keys(channel_versions).filter((channel) => typeof channel_versions[channel] === "number");
  return (
    `{"f":${FORMAT},"checkpoint":${encodeInline(rest, "checkpoint")},` +
    `"metadata":${metadata},"numeric":${JSON.stringify(numeric)}}`
  );
}

export function readHead(text: string, decoder: Decoder): Head {
  const { f, ...head } = decoder.decode(text) as Head & { f: number };
  if (f === FORMAT) return head;
  throw new EngineError("body_corrupt", `A checkpoint of format ${f} needs a newer version of perdure to be read.`);
}
