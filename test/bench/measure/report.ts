// What was measured: a JSON line for each measurement as it is made, and tables at the end.
import { appendFileSync } from "node:fs";
import { median } from "./numbers.js";

export type Figures = Readonly<Record<string, number | null>>;

/** One measurement: who did what in which round, and what it took. Units are part of a figure's name. */
export type Sample = Readonly<{ round: number; part: string; who: string; work: string; figures: Figures }>;

export type Report = Readonly<{
  add(sample: Sample): void;
  /** Text that belongs to the last round: printed once, at the end. */
  note(title: string, text: string): void;
  notes(): ReadonlyMap<string, string>;
  samples(): readonly Sample[];
}>;

export function createReport(file: string | null): Report {
  const samples: Sample[] = [];
  const notes = new Map<string, string>();
  return {
    note: (title, text) => void notes.set(title, text),
    notes: () => notes,
    add(sample) {
      const { figures, ...rest } = sample;
      const rounded = Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, round(value)]));
      samples.push({ ...rest, figures: rounded });
      const line = JSON.stringify({ ...rest, ...rounded });
      console.log(line);
      if (file !== null) appendFileSync(file, `${line}\n`);
    },
    samples: () => samples,
  };
}

function round(value: number | null): number | null {
  return value === null || !Number.isFinite(value) ? null : Number(value.toPrecision(4));
}

/** Where a figure of the targets stands. */
export type Place = Readonly<{ who: string; work: string; figure: string }>;

/** The figure in each round in which it was measured. */
function byRound(samples: readonly Sample[], { who, work, figure }: Place): Map<number, number> {
  const found = samples.filter((sample) => sample.who === who && sample.work === work);
  return new Map(
    found.flatMap(({ round: at, figures }): [number, number][] => {
      const value = figures[figure];
      return value === null || value === undefined ? [] : [[at, value]];
    }),
  );
}

/** The median over the rounds; null when there is none. */
export function valueOf(samples: readonly Sample[], place: Place): number | null {
  const values = [...byRound(samples, place).values()];
  return values.length === 0 ? null : median(values);
}

/** The median of each round's ratio, so that a busy round touches both sides alike. */
export function ratioOf(samples: readonly Sample[], ours: Place, peer: Place): number | null {
  const theirs = byRound(samples, peer);
  const ratios = [...byRound(samples, ours)].flatMap(([at, value]) => {
    const other = theirs.get(at);
    return other === undefined || other === 0 ? [] : [value / other];
  });
  return ratios.length === 0 ? null : median(ratios);
}

/** Medians of all that was measured, one table for each part. */
export function resultTables(samples: readonly Sample[]): string {
  const parts = [...new Set(samples.map(({ part }) => part))];
  return parts.map((part) => `${part}\n${tableOf(samples.filter((sample) => sample.part === part))}`).join("\n\n");
}

function tableOf(samples: readonly Sample[]): string {
  const figures = [...new Set(samples.flatMap((sample) => Object.keys(sample.figures)))];
  const rows = [...new Set(samples.map(({ who, work }) => JSON.stringify([who, work])))].map((key) => {
    const [who, work] = JSON.parse(key) as [string, string];
    return [who, work, ...figures.map((figure) => show(valueOf(samples, { who, work, figure })))];
  });
  return markdownTable([["who", "what", ...figures], ...rows]);
}

export function show(value: number | null): string {
  if (value === null) return "–";
  if (Math.abs(value) >= 1_000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(3)));
}

/** Aligned, so that it reads as text and as Markdown; the first row is the head. */
export function markdownTable(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  const line = (row: readonly string[]): string =>
    `| ${widths.map((width, column) => (row[column] ?? "").padEnd(width)).join(" | ")} |`;
  const [head = [], ...body] = rows;
  return [line(head), `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`, ...body.map(line)].join("\n");
}
