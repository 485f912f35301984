// `perdure assistants` and what `perdure check` says of pins, on an installation whose server has other code than this folder.
import { expect, it } from "vitest";
import { systemAssistantId } from "../../src/assistants/queries.js";
import { withEngine } from "../helpers/engine.js";
import { runProcess } from "../helpers/processes.js";
import { stepsGraph } from "../helpers/scripted-graphs.js";
import { createProject } from "./project.js";

it("assistants are listed, pinned to a version, to this folder's, to their own, and not at all; what can't be meant is refused", async () => {
  const cwd = await createProject();
  const bodies = `file://${cwd}/bodies`;
  const agent = stepsGraph(1, () => undefined);
  await withEngine({ graphs: { agent, other: agent }, workers: 0, bodies }, async ({ client, db }) => {
    const env = { DATABASE_URL: db.url, PERDURE_BODIES: bodies };
    const cli = (...args: string[]) => runProcess(args, { cwd, env });
    const pinned = async () => (await client.assistants.get("agent")) as object;
    const { run_id } = await client.runs.create(null, "agent", { input: { log: [] } });

    expect((await cli("assistants", "pin", "agent", "a1b2")).stdout).toContain("version a1b2 of graph");
    expect(await pinned()).toMatchObject({ pin: "a1b2" });
    const listed = JSON.parse((await cli("assistants", "ls", "--json")).stdout) as object[];
    expect(listed).toMatchObject([
      { assistant: systemAssistantId("agent"), graph: "agent", pin: "a1b2", waiting: 1 },
      { graph: "other", pin: "latest", waiting: 0, since: null },
    ]);
    expect((await cli("check")).stdout).toMatch(
      /1 runs of graph "agent" wait for a worker with version a1b2, .* since 2/,
    );

    expect((await cli("assistants", "pin", systemAssistantId("agent"), "current")).code).toBe(0);
    const { rows } = await db.db.query<{ pin: string }>("select pin from runs where run_id = $1", [run_id]);
    expect(rows[0]?.pin).toMatch(/^[0-9a-f]{16}$/);
    expect(await pinned()).toMatchObject({ pin: rows[0]?.pin });
    expect((await cli("assistants", "latest", "agent")).stdout).toContain("by any version");
    expect(await pinned()).toMatchObject({ pin: "latest" });

    for (const [args, code, message] of [
      [["agent", "latest"], 2, '<version>: "latest" is not the name of a version'],
      [["nobody", "own"], 1, 'There is no assistant "nobody"; `perdure assistants ls` lists them'],
      [["other", "current"], 2, 'has no graph "other"; it has agent'],
    ] as const) {
      expect(await cli("assistants", "pin", ...args)).toMatchObject({
        code,
        output: expect.stringContaining(message) as unknown,
      });
    }
  });
});
