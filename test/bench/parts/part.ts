// What each part of the benchmark is given, and how it reports.
import type { Postgres } from "../setup/postgres.js";
import type { Figures, Report } from "../measure/report.js";
import type { Reading } from "../measure/meter.js";

export type Run = Readonly<{
  server: Postgres;
  report: Report;
  round: number;
  /** Less of everything: for a look, not for numbers to quote. */
  quick: boolean;
  /** Without: only perdure is measured. */
  peers: boolean;
}>;

/** What a reading costs per piece of work. */
export function costs(reading: Reading, pieces: number, piece: string): Figures {
  const per = (value: number | null): number | null => (value === null ? null : value / pieces);
  return {
    [`node ms/${piece}`]: per(reading.nodeCpuMs),
    [`postgres ms/${piece}`]: per(reading.postgresCpuMs),
    [`statements/${piece}`]: per(reading.statements),
    [`commits/${piece}`]: per(reading.commits),
    "foreign cores": reading.foreignCores,
  };
}
