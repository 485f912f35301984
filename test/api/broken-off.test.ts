// An answer that is written bit by bit and breaks off doesn't look like one that has ended, whoever serves the app.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { Hono } from "hono";
import { expect, test } from "vitest";
import type { ApiEnv } from "../../src/api/env.js";
import { type OpenBody, streamEvents } from "../../src/api/node-http.js";
import { until } from "../helpers/wait.js";

const tell = async (body: OpenBody, how: string): Promise<void> => {
  await body.write("data: 1\n\n");
  if (how === "cut") body.cut();
};

function appOf(write: (body: OpenBody, how: string) => Promise<void>): Hono<ApiEnv> {
  return new Hono<ApiEnv>().get("/:how", (c) => streamEvents(c, (body) => write(body, c.req.param("how"))));
}

/** As somebody's middleware is around ours, and as our own server serves it. */
async function served(app: Hono<ApiEnv>, isWrapped: boolean, work: (url: string) => Promise<void>): Promise<void> {
  const outer = new Hono<ApiEnv>();
  outer.use(async (c, next) => {
    if (isWrapped) c.set("asItCame", c.req.raw);
    await next();
  });
  outer.route("/", app);
  const listener = getRequestListener((request, env) => outer.fetch(request, env));
  const server = createServer((request, response) => void listener(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

test("served as web requests: the end is an end, and a cut is an error", async () => {
  const app = appOf(tell);
  expect(await (await app.request("/end")).text()).toBe("data: 1\n\n");
  await expect((await app.request("/cut")).text()).rejects.toThrow("broke off");
});

test.each([
  ["our own server", false],
  ["middleware around us", true],
])("behind %s: the end is an end, and a cut breaks the connection off", async (_, isWrapped) => {
  await served(appOf(tell), isWrapped, async (url) => {
    expect(await (await fetch(`${url}/end`)).text()).toBe("data: 1\n\n");
    // Before its head or in its body, as it happens to be sent.
    await expect(fetch(`${url}/cut`).then((response) => response.text())).rejects.toThrow();
  });
});

test.each([
  ["our own server", false],
  ["middleware around us", true],
])("behind %s: what is written hears of a client that leaves", async (_, isWrapped) => {
  const left: boolean[] = [];
  const app = appOf(async (body) => {
    body.gone.addEventListener("abort", () => left.push(true));
    while (!body.gone.aborted) {
      await body.write(": still here\n\n");
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  });
  await served(app, isWrapped, async (url) => {
    const leaving = new AbortController();
    const { body } = await fetch(`${url}/on`, { signal: leaving.signal });
    await body?.getReader().read();
    leaving.abort();
    await until("it hears of it", () => left.length === 1);
  });
});
