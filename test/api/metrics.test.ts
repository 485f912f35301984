// What operators see of an installation and a process, and that seeing it costs next to nothing.
import { expect, test } from "vitest";
import { withEngine } from "../helpers/engine.js";
import { until } from "../helpers/wait.js";
import { graphs } from "./graphs.js";

/** The value of a line like `name{a="b"} 3`. */
function valueOf(text: string, series: string): number | undefined {
  const line = text.split("\n").find((one) => one.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}

test("metrics say what waits, what failed, how attempts ended and what requests took", () =>
  withEngine({ graphs, workers: 0 }, async (t) => {
    const { app, client } = t;
    const read = async (): Promise<string> => {
      const response = await app.request("/metrics");
      expect(response.headers.get("content-type")).toMatch(/^text\/plain; version=0\.0\.4/);
      return response.text();
    };
    const { thread_id } = await client.threads.create();
    await client.runs.create(thread_id, "steps", { input: { log: [] } });
    await client.runs.create(thread_id, "steps", { input: { log: [] }, afterSeconds: 3_600 });
    const text = await read();
    expect(valueOf(text, 'perdure_runs{state="ready"}')).toBe(1);
    expect(valueOf(text, 'perdure_runs{state="waiting"}')).toBe(1);
    expect(valueOf(text, 'perdure_runs{state="running"}')).toBe(0);
    expect(valueOf(text, "perdure_runs_attention")).toBe(0);
    expect(text).toMatch(
      /http_server_request_duration_seconds_count\{.*http_route="\/threads\/:thread_id\/runs".*\} 2/,
    );
    expect(text).toContain("process_resident_memory_bytes");
    t.startWorker({ withApi: true });
    await until("the run is over", async () => (await client.runs.list(thread_id, { status: "success" })).length === 1);
    expect(valueOf(await read(), 'perdure_run_attempts_ended_total{outcome="success"}')).toBe(1);
  }));

test("the database is asked at most once in a few seconds, however many ask", () =>
  withEngine({ graphs, workers: 0 }, async ({ app, engine }) => {
    const { measures } = engine;
    const first = await measures();
    expect(await measures()).toBe(first);
    expect((await app.request("/metrics")).status).toBe(200);
  }));
