// What a process counts and measures for operators, in the text format of Prometheus. Names and units follow Prometheus' and
// OpenTelemetry's conventions. No label holds an id or content, so that there are few series.
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";

/** What was found where the whole installation keeps it: a value for each combination of labels. */
export type Reading = Readonly<{ labels: Readonly<Record<string, string>>; value: number }>;
/** By the name of a gauge. */
export type Readings = Readonly<Record<string, readonly Reading[]>>;

export type GaugeSpec = Readonly<{ help: string; labels: readonly string[] }>;

export type Meters = Readonly<{
  /** An attempt of a run ended so: `success`, `error`, `interrupted`, or handed back as `retry`, `sleeping`, … */
  attemptEnded(outcome: string): void;
  /** A request was answered, or its answer has begun, after so many seconds. */
  requestAnswered(request: Readonly<{ method: string; route: string; status: number }>, seconds: number): void;
  contentType: string;
  /** The text, with what was read just now. */
  render(readings: Readings): Promise<string>;
}>;

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** `gauges`: what `render` will be given. */
export function createMeters(gauges: Readonly<Record<string, GaugeSpec>>): Meters {
  const registry = new Registry();
  const registers = [registry];
  const attempts = new Counter({
    name: "perdure_run_attempts_ended_total",
    help: "Attempts of runs that ended in this process, by outcome",
    labelNames: ["outcome"],
    registers,
  });
  const requests = new Histogram({
    name: "http_server_request_duration_seconds",
    help: "Time until a request was answered, or its stream began",
    labelNames: ["http_request_method", "http_route", "http_response_status_code"],
    buckets: SECONDS,
    registers,
  });
  const read = Object.entries(gauges).map(([name, { help, labels }]) => {
    return { name, gauge: new Gauge({ name, help, labelNames: [...labels], registers }) };
  });
  let ofProcess = false;

  return {
    attemptEnded: (outcome) => attempts.inc({ outcome }),
    requestAnswered: ({ method, route, status }, seconds) =>
      requests.observe(
        { http_request_method: method, http_route: route, http_response_status_code: String(status) },
        seconds,
      ),
    contentType: registry.contentType,
    async render(readings) {
      // Watching the process costs a little all the time: it begins with the first who asks.
      if (!ofProcess) collectDefaultMetrics({ register: registry });
      ofProcess = true;
      for (const { name, gauge } of read) {
        gauge.reset();
        for (const { labels, value } of readings[name] ?? []) gauge.set(labels, value);
      }
      return registry.metrics();
    },
  };
}
