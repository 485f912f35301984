// What graphs throw where nobody catches it: no run of others pays for it, and the log says whose it was.
import { expect, it } from "vitest";
import { createTestDatabase } from "../helpers/database.js";
import { startProcess, type TestProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";
import { createProject } from "./project.js";

const GRAPH = `
import { Annotation, StateGraph } from "@langchain/langgraph";
const State = Annotation.Root({ does: Annotation<string>, n: Annotation<number> });
export const graph = new StateGraph(State).addNode("stray", async ({ does }) => {
  if (does === "reject") void Promise.reject(new TypeError("a secret"));
  if (does === "throw") setTimeout(() => { throw new RangeError("a secret"); }, 1);
  if (does === "exit") process.exit(3);
  await new Promise((resolve) => setTimeout(resolve, 100));
  return { n: 1 };
}).addEdge("__start__", "stray");
`;

type Site = Readonly<{ process: TestProcess; run(does: string, how?: "wait"): Promise<Response> }>;

async function withStart(work: (site: Site) => Promise<void>): Promise<void> {
  const database = await createTestDatabase();
  const cwd = await createProject({ "graph.ts": GRAPH });
  const env = { DATABASE_URL: database.url, PERDURE_BODIES: `file://${cwd}/bodies`, PERDURE_POLL_MS: "100" };
  const process = startProcess(["start", "--port", "0"], { cwd, env });
  try {
    const [, url = ""] = await process.waitFor(/is ready at (\S+)/);
    await work({
      process,
      run: (does, how) =>
        fetch(how === undefined ? `${url}/runs` : `${url}/runs/${how}`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ assistant_id: "agent", input: { does } }),
        }),
    });
  } finally {
    await process.stop();
    await database.close();
  }
}

/** The log line with this message. */
function logged(process: TestProcess, message: RegExp): Record<string, unknown> | undefined {
  const line = process
    .output()
    .split("\n")
    .find((text) => text.startsWith("{") && message.test(text));
  return line === undefined ? undefined : (JSON.parse(line) as Record<string, unknown>);
}

it("a rejection that nobody awaits ends neither its run nor the process; the log names the run, not the message", () =>
  withStart(async ({ process, run }) => {
    const answer = await run("reject", "wait");
    const runId = answer.headers.get("content-location")?.split("/").at(-1);
    expect(await answer.json()).toEqual({ does: "reject", n: 1 });
    const line = await until("the log line", () => logged(process, /a promise nobody waited for failed/));
    expect(line).toMatchObject({
      level: 50,
      run_id: runId,
      error: "TypeError",
      frames: expect.stringContaining("graph.ts:"),
    });
    expect(process.output()).not.toContain("a secret");
    expect(await (await run("", "wait")).json()).toEqual({ does: "", n: 1 });
    expect(await process.stop()).toBe(0);
    expect(logged(process, /process\.exit was called/)).toBeUndefined();
  }));

it.each([
  ["throw", 1, /thrown where nobody catches it/],
  ["exit", 3, /process\.exit was called/],
])("a graph whose node does `%s` ends the process with code %i, and the log names the run", (does, code, message) =>
  withStart(async ({ process, run }) => {
    const { run_id } = (await (await run(does)).json()) as { run_id: string };
    expect(await process.exited).toEqual({ code, signal: null });
    expect(logged(process, message)).toMatchObject({ level: 50, run_id });
    expect(process.output()).not.toContain("a secret");
  }),
);
