// What the binary opens for a command, from the place it names, and closes when its work is over.
import type { Deps } from "../core/deps.js";
import type { Retention } from "../core/retention.js";
import type { Source } from "../engine/adopt/source.js";
import type { Engine } from "../engine/engine.js";
import type { Place } from "./command.js";
import type { Output } from "./output.js";

/** Where a command says what it has to say: for people, or for programs. */
export type Print = Output & Readonly<{ json: boolean }>;

export type Opened = Readonly<{
  deps: Deps;
  /** What langgraph.json says is kept; null: it says nothing. */
  retention: Retention | null;
  /** Who holds threads that this command works on. */
  owner: string;
  leaseMs: number;
  moveAfterMs: number;
}>;

export type Open = Readonly<{
  /** Postgres, and the object store where `bodies` says so. */
  parts<T>(
    at: Place,
    needs: Readonly<{ bodies: boolean }>,
    work: (opened: Opened, print: Print) => Promise<T>,
  ): Promise<T>;
  /** The same, with the graphs. */
  engine<T>(at: Place, work: (engine: Engine, print: Print) => Promise<T>): Promise<T>;
  /** The same, with the database that threads are adopted from. */
  source<T>(
    at: Place,
    from: string | null,
    work: (engine: Engine, source: Source, print: Print) => Promise<T>,
  ): Promise<T>;
}>;
