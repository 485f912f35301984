// What may happen to a thread, as fast-check makes it up.
import fc from "fast-check";
import { message, type MessageSpec, type Spec, value } from "./specs.js";

/** How the messages of a step differ from those it started from; `at` is taken modulo their number. */
export type Edit =
  | Readonly<{ edit: "append"; messages: readonly MessageSpec[] }>
  | Readonly<{ edit: "remove" | "swap" | "first"; at: number }>
  | Readonly<{ edit: "replace" | "touch"; at: number; message: MessageSpec }>;

export type Step =
  | Readonly<{
      do: "put";
      /** Which checkpoint it stands on, newest first; mostly the newest. */
      base: number;
      ns: number;
      edits: readonly Edit[];
      /** A new value, none any more, or the old one. */
      data: Spec | null;
      empty: boolean;
      /** A delta channel moves without a value, or is written whole. */
      delta: "same" | "moves" | "snapshot";
      /** Packets that carry the whole state. */
      sends: boolean;
      /** Its clock is behind. */
      behind: boolean;
      tag: number;
    }>
  /** What this process put last; or any, by another process that does nothing else and knows of no change. */
  | Readonly<{ do: "again"; base: number | null; tag: number }>
  | Readonly<{ do: "copy"; base: number; tag: number }>
  | Readonly<{
      do: "write";
      base: number;
      /** Sent in one turn with the put of its checkpoint, before it. */
      early: boolean;
      task: number;
      path: number;
      writes: readonly (readonly [string, Spec])[];
    }>
  | Readonly<{ do: "list"; ns: number | null; before: number | null; tag: number | null; limit: number | null }>
  | Readonly<{ do: "get"; base: number | null; ns: number }>
  | Readonly<{ do: "delta"; base: number }>
  /** Everything after it is another process's: another attempt with nothing in memory. */
  | Readonly<{ do: "takeover" }>
  | Readonly<{ do: "move"; settled: boolean; small: boolean }>
  /** Between runs; the packs are emptied after it, or some time later. */
  | Readonly<{ do: "prune"; keepLatest: number; thorough: boolean; repack: boolean }>
  | Readonly<{ do: "sweep" | "delete" }>;

const at = fc.nat(40);
const base = fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(12) });
const tag = fc.nat(2);
const edit: fc.Arbitrary<Edit> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      edit: fc.constant("append" as const),
      messages: fc.array(message, { minLength: 1, maxLength: 6 }),
    }),
  },
  fc.record({ edit: fc.constantFrom("remove", "swap", "first"), at }),
  fc.record({ edit: fc.constantFrom("replace", "touch"), at, message }),
);
const CHANNELS = [
  "messages",
  "data",
  "delta",
  "delta",
  "__error__",
  "__interrupt__",
  "__resume__",
  "__scheduled__",
  "__no_writes__",
];

export const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        do: fc.constant("put" as const),
        base,
        ns: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(2) }),
        edits: fc.array(edit, { maxLength: 3 }),
        data: fc.option(value, { freq: 2 }),
        empty: fc.boolean(),
        delta: fc.constantFrom("same", "moves", "moves", "snapshot"),
        sends: fc.boolean(),
        behind: fc.boolean(),
        tag,
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant("again" as const), base: fc.option(fc.nat(12), { freq: 2 }), tag }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("copy" as const), base: fc.nat(12), tag }) },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant("write" as const),
        base,
        early: fc.boolean(),
        task: fc.nat(2),
        path: fc.nat(3),
        writes: fc.array(fc.tuple(fc.constantFrom(...CHANNELS), value), { minLength: 1, maxLength: 3 }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant("list" as const),
        ns: fc.option(fc.nat(2)),
        before: fc.option(fc.nat(12)),
        tag: fc.option(tag),
        limit: fc.option(fc.nat(4)),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("get" as const), base: fc.option(base), ns: fc.nat(2) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("delta" as const), base }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("takeover" as const) }) },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constant("move" as const), settled: fc.boolean(), small: fc.boolean() }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant("prune" as const),
        keepLatest: fc.integer({ min: 1, max: 3 }),
        thorough: fc.boolean(),
        repack: fc.boolean(),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("sweep", "sweep", "delete") }) },
  ),
  { minLength: 1, maxLength: 20, size: "max" },
);
