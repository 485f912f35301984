// Prefer: wait=8: a caller that would wait gets the result when it is there in time, else where it will be; at once when the
// worker that had the run is dead.
import { expect, test } from "vitest";
import { size } from "../helpers/soak.js";
import { until } from "../helpers/wait.js";
import { type CrashSite, type Journal, withCrashSite } from "./setup.js";

/** How long the run of 20 s is waited for. */
const LONG_WAIT_S = size(2, 8);

type Asked = Readonly<{ stepMs: number; hold?: string }>;

async function ask(site: CrashSite, journal: Journal, { stepMs, hold }: Asked, prefer = "wait=8", key?: string) {
  const startedMs = performance.now();
  const response = await site.app.request("/runs", {
    method: "POST",
    headers: { "content-type": "application/json", prefer, ...(key !== undefined && { "idempotency-key": key }) },
    body: JSON.stringify({
      assistant_id: "steps",
      input: { log: [] },
      config: { configurable: { journal: journal.path, step_ms: stepMs, hold: hold === undefined ? [] : [hold] } },
    }),
  });
  const body = (await response.json()) as Readonly<{ log?: string[]; run_id?: string; status?: string }>;
  const { status, headers } = response;
  return { status, headers, body, tookMs: performance.now() - startedMs };
}

test("a run of 2 s gives 200, one of 20 s 202, and one whose worker is killed after 3 s 202 promptly", async () => {
  await withCrashSite(async (site) => {
    const first = site.worker();
    await first.waitFor("perdure worker is ready");
    const short = await ask(site, site.journal(), { stepMs: 100 });
    expect(short).toMatchObject({ status: 200, body: { log: expect.any(Array) as unknown } });
    expect(short.body.log).toHaveLength(20);
    expect(short.headers.get("preference-applied")).toBe("wait=8");
    expect(short.headers.get("content-location")).toMatch(/^\/runs\//);

    const journal = site.journal();
    const [long, killed] = await Promise.all([
      ask(site, site.journal(), { stepMs: 1_000 }, `respond-async, wait=${LONG_WAIT_S}`),
      (async () => {
        const answer = ask(site, journal, { stepMs: 20, hold: "s3" }, "wait=8", "one message");
        await until("the third step", () => journal.count("enter s3") === 1);
        await new Promise((resolve) => setTimeout(resolve, 3_000));
        await first.kill();
        return { ...(await answer), killedMs: performance.now() };
      })(),
    ]);
    expect(long).toMatchObject({ status: 202, body: { status: "running" } });
    expect(long.tookMs).toBeLessThan((LONG_WAIT_S + 2) * 1_000);
    expect(killed).toMatchObject({ status: 202, body: { status: "running" } });
    expect(killed.tookMs).toBeLessThan(7_000);
    const join = killed.headers.get("location") ?? "";
    expect(join).toMatch(/^\/threads\/.*\/join$/);
    // It goes on elsewhere, and whoever asks again with its key gets the same run.
    await site.expire(first);
    site.worker();
    const joined: unknown = await (await site.app.request(join)).json();
    const again = await ask(site, journal, { stepMs: 20, hold: "s3" }, "wait=8", "one message");
    expect(again).toMatchObject({ status: 200, body: joined });
    expect(again.body.log).toHaveLength(20);
    expect(again.headers.get("content-location")).toBe(`/runs/${killed.body.run_id}`);
    expect(journal.count("enter s1")).toBe(1);
  });
}, 120_000);

test("a wait has bounds, and what isn't one is ignored", async () => {
  await withCrashSite(async (site) => {
    const none = await ask(site, site.journal(), { stepMs: 20 }, "wait=0");
    expect(none).toMatchObject({ status: 202, body: { status: "pending" } });
    for (const prefer of ["wait=soon", "wait=-1", "respond-async", "await=8"]) {
      const answer = await ask(site, site.journal(), { stepMs: 20 }, prefer);
      expect(answer).toMatchObject({ status: 200, body: { status: "pending" } });
      expect(answer.headers.get("preference-applied")).toBeNull();
    }
    const worker = site.worker();
    await worker.waitFor("perdure worker is ready");
    const most = await ask(site, site.journal(), { stepMs: 1 }, `wait=${"9".repeat(20)}`);
    expect(most.status).toBe(200);
    expect(most.headers.get("preference-applied")).toBe("wait=60");
  });
}, 60_000);
