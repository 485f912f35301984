// The run record, read while a worker is in the middle of a tool call, and after that worker was killed.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { startProvider } from "../helpers/provider.js";
import { until } from "../helpers/wait.js";
import { withCrashSite } from "./setup.js";
import { RECORD_FIELDS } from "../helpers/run-record.js";

type Entry = Readonly<{ sha256: string; uri: string; type: string }>;
type Seen = Readonly<{ [field: string]: unknown; messages_uri: string | null; tool_results_uri: string | null }>;

/** What a URI of the record names: a list in a file, whose entries name lines of packs. */
function resolve(uri: string): Entry[] {
  const [file = "", pointer = ""] = uri.split("#");
  const list = (JSON.parse(readFileSync(fileURLToPath(file), "utf8")) as Record<string, Entry[]>)[pointer.slice(1)];
  return list ?? [];
}

function isThere({ sha256, uri }: Entry): boolean {
  const [file = ""] = uri.split("#");
  return gunzipSync(readFileSync(fileURLToPath(file))).includes(sha256);
}

test("in the middle of a tool call the run record is whole and its URIs resolve; after kills its tokens are the provider's", async () => {
  const provider = await startProvider();
  await withCrashSite(async (site) => {
    const journal = site.journal();
    const { thread_id } = await site.client.threads.create();
    const configurable = { journal: journal.path, provider: provider.url, hold: ["tool b", "tool c"], step_ms: 1 };
    const input = { messages: [{ role: "user", content: "go" }] };
    const { run_id } = await site.client.runs.create(thread_id, "spender", { input, config: { configurable } });
    const record = async (): Promise<Seen> =>
      (await (await site.app.request(`/threads/${thread_id}/runs/${run_id}/record`)).json()) as Seen;

    const first = site.worker({ PERDURE_MOVE_AFTER_MS: "200" });
    await until("two calls to be held", () =>
      ["tool b", "tool c"].every((name) => journal.count(`enter ${name}`) === 1),
    );
    await until("what is there to be moved", async () => {
      const { messages_uri: uri } = await record();
      return uri !== null && resolve(uri).length === 2;
    });
    const seen = await record();
    expect(Object.keys(seen)).toEqual(expect.arrayContaining(RECORD_FIELDS));
    expect(seen).toMatchObject({ status: "running", attempt: 1, current_step: "tool_execution", model: "stand-in" });
    expect(seen).toMatchObject({ token_so_far: provider.tokens(), error: null, pending_approval: null });
    const messages = resolve(seen.messages_uri!);
    expect(messages.map(({ type }) => type)).toEqual(["human", "ai"]);
    expect(messages.every(isThere)).toBe(true);
    expect(resolve(seen.tool_results_uri!).every(isThere)).toBe(true);

    await first.kill();
    await site.expire(first);
    site.worker({ PERDURE_MOVE_AFTER_MS: "200" });
    await until("success", async () => (await record())["status"] === "success");
    // Asked twice, and neither again.
    expect(provider.asked()).toBe(2);
    expect((await record())["token_so_far"]).toBe(provider.tokens());
    expect(["a", "b", "c"].map((name) => journal.count(`enter tool ${name}`))).toEqual([1, 2, 2]);
    await until("its results to be moved", async () => resolve((await record()).tool_results_uri!).length === 3);
    expect(resolve((await record()).tool_results_uri!).every(isThere)).toBe(true);
  });
  await provider.close();
}, 120_000);
