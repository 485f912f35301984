// P11 with a secret key: what goes to the object store is unreadable there, reads back as it was, and an engine with another key, or
// with none, refuses to start instead of giving a graph something else.
import { randomBytes, randomUUID } from "node:crypto";
import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { AIMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { afterAll, beforeAll, expect, test } from "vitest";
import { withEngine } from "../helpers/engine.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), "perdure-encrypted-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test("no object holds a word of it, everything reads back, and other keys are refused at the start", async () => {
  const mark = `mark-${randomUUID().slice(0, 8)}`;
  const chat = new StateGraph(MessagesAnnotation)
    .addNode("answer", () => ({ messages: [new AIMessage(`${mark} ${"answer ".repeat(300_000)}`)] }))
    .addEdge(START, "answer")
    .addEdge("answer", END)
    .compile();
  const bodies = pathToFileURL(folder).href;
  const secretKey = randomBytes(32).toString("base64");
  await withEngine({ graphs: { chat }, bodies, secretKey, workers: 0 }, async (t) => {
    const first = t.startWorker();
    const { thread_id } = await t.client.threads.create();
    const say = (content: string) =>
      t.client.runs.wait(thread_id, "chat", { input: { messages: [{ type: "human", content }] } });
    await say(`${mark} question`);
    while ((await t.move()) > 0);
    const state = JSON.stringify(await t.client.threads.getState(thread_id));
    const files = await readdir(folder, { recursive: true, withFileTypes: true });
    const objects = files.filter((file) => file.isFile());
    // A pack, a manifest, a large body, and the note of the key.
    expect(objects.length).toBeGreaterThanOrEqual(4);
    for (const { parentPath, name } of objects) {
      const bytes = await readFile(path.join(parentPath, name));
      expect(bytes.subarray(0, 3).toString()).toBe("PDE");
      expect(bytes.includes(mark) || bytes.includes(thread_id)).toBe(false);
    }
    await first.stop();
    t.startWorker();
    await say(`${mark} again`);
    const later = await t.client.threads.getHistory(thread_id, { limit: 100 });
    expect(later.some((checkpoint) => JSON.stringify(checkpoint) === state)).toBe(true);
  });
  for (const other of [{ secretKey: randomBytes(32).toString("hex") }, {}]) {
    const starting = withEngine({ graphs: { chat }, bodies, workers: 0, ...other }, async () => "started");
    await expect(starting).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringMatching(/encrypted with the key [0-9a-f]{16}.*PERDURE_SECRET_KEY/) as string,
    });
  }
});
