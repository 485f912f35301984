// The app on a real port.
import { Hono } from "hono";
import { expect, test } from "vitest";
import { serveApi } from "../../src/api/server.js";

function slowApp() {
  const gates: (() => void)[] = [];
  const app = new Hono();
  app.get("/fast", (c) => c.text("fast"));
  app.get("/slow", async (c) => {
    await new Promise<void>((resolve) => gates.push(resolve));
    return c.text("slow");
  });
  return { app, gates };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

test("listens on loopback and answers", async () => {
  const server = await serveApi(slowApp().app, { port: 0 });
  expect(server.url).toBe(`http://127.0.0.1:${server.port}`);
  expect(await (await fetch(`${server.url}/fast`)).text()).toBe("fast");
  await server.close();
});

test("a port in use is a configuration error that names it", async () => {
  const server = await serveApi(slowApp().app, { port: 0 });
  await expect(serveApi(slowApp().app, { port: server.port })).rejects.toMatchObject({
    code: "config_invalid",
    message: expect.stringContaining(`Port ${server.port} on 127.0.0.1 is in use`),
  });
  await server.close();
});

test("a host that is not ours is a configuration error that names it", async () => {
  await expect(serveApi(slowApp().app, { port: 0, host: "203.0.113.1" })).rejects.toMatchObject({
    code: "config_invalid",
    message: expect.stringContaining("203.0.113.1"),
  });
});

test("closing waits for the request that runs and takes no other", async () => {
  const { app, gates } = slowApp();
  const server = await serveApi(app, { port: 0 });
  const running = fetch(`${server.url}/slow`);
  await until(() => gates.length === 1);
  const closed = server.close();
  await expect(fetch(`${server.url}/fast`)).rejects.toThrow();
  gates[0]?.();
  expect(await (await running).text()).toBe("slow");
  await closed;
});

test("what clients hold open is cut after the grace time", async () => {
  const { app, gates } = slowApp();
  const server = await serveApi(app, { port: 0 });
  const running = fetch(`${server.url}/slow`).catch((error: unknown) => error);
  await until(() => gates.length === 1);
  await server.close({ graceMs: 20 });
  expect(await running).toBeInstanceOf(Error);
});

test("closing twice is closing once", async () => {
  const server = await serveApi(slowApp().app, { port: 0 });
  await Promise.all([server.close(), server.close()]);
});
