// A supervised process: a crash loop does not spin, and what ends before it was ever ready is not tried again.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Child } from "../../src/cli/dev/child.js";
import { until } from "../helpers/wait.js";

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(path.join(os.tmpdir(), "perdure-child-"));
});
afterAll(async () => {
  await rm(dir, { recursive: true, force: true });
});

async function child(source: string) {
  const file = path.join(dir, `${Math.random().toString(36).slice(2)}.mjs`);
  await writeFile(file, source);
  const notes: string[] = [];
  const made = new Child({
    name: "the child",
    args: () => [file],
    env: { PATH: process.env.PATH },
    onChange: () => undefined,
    note: (text) => notes.push(text),
  });
  return { made, notes };
}

describe("a supervised process", () => {
  it("that keeps dying is started ever later", async () => {
    const { made, notes } = await child(`process.send({ ready: true }, () => process.exit(7));`);
    await made.ready;
    await until("four deaths", () => notes.length >= 4);
    await made.stop();
    const waits = notes.slice(0, 4).map((note) => Number(/again in ([\d.]+) s/.exec(note)?.[1]));
    expect(waits).toEqual([0.1, 0.2, 0.4, 0.8]);
    expect(notes[0]).toContain("the child ended (exit code 7)");
  });

  it("that says why it can't start is not started again", async () => {
    const { made, notes } = await child(`process.send({ failed: "port in use", exitCode: 2 }, () => process.exit(2));`);
    await expect(made.ready).rejects.toMatchObject({ message: "port in use", exitCode: 2 });
    expect(notes).toEqual([]);
    expect(made.pid).toBeNull();
  });

  it("is replaced by one that has come up, and not before; the old one ends in its own time", async () => {
    const { made } = await child(`
      process.on("SIGTERM", () => setTimeout(() => process.exit(0), 300));
      process.on("message", ({ begin }) => begin && process.send({ ready: true }));
      setTimeout(() => process.send({ prepared: true }), 300);
      setInterval(() => {}, 1000);`);
    await made.ready;
    const first = made.pid as number;
    const next = made.prepare();
    expect(made.pid).toBe(first);
    await next.take();
    expect(made.pid).not.toBe(first);
    expect(made.pid).not.toBeNull();
    await until("the old one has ended", () => isGone(first));
    await made.stop();
    expect(made.pid).toBeNull();
  });

  it("stays when its successor is dropped, or ends before it has come up", async () => {
    const { made, notes } = await child(`
      import { existsSync, writeFileSync } from "node:fs";
      const isFirst = !existsSync(import.meta.url.slice(7) + ".ran");
      writeFileSync(import.meta.url.slice(7) + ".ran", "");
      process.on("message", ({ begin }) => begin && process.send({ ready: true }));
      process.send(isFirst ? { prepared: true } : { failed: "no such graph", exitCode: 2 }, () => isFirst || process.exit(2));
      setInterval(() => {}, 1000);`);
    await made.ready;
    const { pid } = made;
    await made.prepare().drop();
    await made.prepare().take();
    expect(made.pid).toBe(pid);
    expect(notes).toEqual(["the child goes on as it was: its new process ended (no such graph)"]);
    await made.stop();
  });
});

function isGone(pid: number): boolean {
  try {
    return !process.kill(pid, 0);
  } catch {
    return true;
  }
}
