// What a thread's states take, and labels that come through its state.
import { expect, test } from "vitest";
import { withEngine } from "../helpers/engine.js";
import { graphs } from "./graphs.js";

type Part = Readonly<{ count: number; bytes: number }>;
type Storage = Readonly<{
  thread_id: string;
  total_bytes: number;
  checkpoints: Part;
  channel_values: Part & Readonly<{ by_channel: Record<string, { versions: number; bytes: number }> }>;
  pending_writes: Part;
  staged_bodies: Part;
  objects: Part;
}>;

test("storage adds up, by what it consists of, before and after the move to the object store", () =>
  withEngine({ graphs, moveAfterMs: 3_600_000 }, async (t) => {
    const { client, app, db } = t;
    const { thread_id } = await client.threads.create();
    const read = async (): Promise<Storage> =>
      (await (await app.request(`/threads/${thread_id}/storage`)).json()) as Storage;
    expect(await read()).toMatchObject({ thread_id, total_bytes: 0, checkpoints: { count: 0, bytes: 0 } });
    await client.runs.wait(thread_id, "steps", { input: { log: ["x".repeat(2_000)] } });
    const before = await read();
    expect(before.checkpoints.count).toBe(5);
    expect(before.channel_values.by_channel["log"]?.versions).toBeGreaterThan(1);
    const parts = (of: Storage): Part[] => [
      of.checkpoints,
      of.channel_values,
      of.pending_writes,
      of.staged_bodies,
      of.objects,
    ];
    expect(parts(before).reduce((sum, { bytes }) => sum + bytes, 0)).toBe(before.total_bytes);
    expect(before.objects.count).toBe(0);
    await db.db.query("update timers set due_at = now() where kind = 'move'");
    while ((await t.move()) > 0);
    const after = await read();
    expect(after.objects.count).toBeGreaterThan(0);
    expect(after.staged_bodies.count).toBe(0);
    expect((await app.request("/threads/00000000-0000-4000-8000-000000000000/storage")).status).toBe(404);
  }));

test("patching the state labels the thread", () =>
  withEngine({ graphs, workers: 0 }, async ({ client, app }) => {
    const { thread_id } = await client.threads.create({ metadata: { a: 1 } });
    await client.threads.patchState(thread_id, { b: 2 });
    expect((await client.threads.get(thread_id)).metadata).toEqual({ a: 1, b: 2 });
    expect(await client.threads.count({ metadata: { b: 2 } })).toBe(1);
    const body = JSON.stringify({ metadata: { b: 3 } });
    const response = await app.request(`/threads/${thread_id}/state`, { method: "PATCH", body });
    expect(response.status).toBe(204);
    const nobody = await app.request("/threads/00000000-0000-4000-8000-000000000000/state", { method: "PATCH", body });
    expect(nobody.status).toBe(404);
  }));
