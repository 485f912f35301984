// The stock React hooks in a real browser, on a page as an application has one.
import { fileURLToPath } from "node:url";
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { build } from "esbuild";
import type { BrowserContext, Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { serveApi } from "../../src/api/server.js";
import { hasChromium, startChromium, startPages } from "../helpers/chromium.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { StreamingModel } from "../helpers/streaming-model.js";
import { until } from "../helpers/wait.js";

const words = (n: number): string => Array.from({ length: n }, (_, i) => `w${i}`).join(" ");
/** Counts as far as the last message says, word by word. */
const model = new StreamingModel((messages) => ({ text: words(Number(messages.at(-1)?.text.split(" ")[1])) }), 10);
const chat = new StateGraph(MessagesAnnotation)
  .addNode("answer", async ({ messages }: { messages: BaseMessage[] }) => {
    if (messages.at(-1)?.text !== "pay") return { messages: [await model.invoke(messages)] };
    return { messages: [new AIMessage(`paid: ${String(interrupt({ question: "Pay 40 €?" }))}`)] };
  })
  .addEdge(START, "answer")
  .addEdge("answer", END)
  .compile();

const HOOKS = [
  { name: "useStream of the SDK", page: "legacy", transport: "sse" },
  { name: "@langchain/react over SSE", page: "current", transport: "sse" },
  { name: "@langchain/react over a WebSocket", page: "current", transport: "websocket" },
] as const;

const scripts = new Map<string, Promise<string>>();

/** The page's code in one script. */
function bundle(page: string): Promise<string> {
  const made = scripts.get(page) ?? bundled(page);
  scripts.set(page, made);
  return made;
}

async function bundled(page: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL(`pages/${page}.jsx`, import.meta.url))],
    ...{ bundle: true, write: false, format: "esm", platform: "browser", jsx: "automatic", target: "es2022" },
    define: { "process.env.NODE_ENV": '"production"' },
    logLevel: "error",
  });
  return outputFiles[0]?.text ?? "";
}

type Tab = Readonly<{
  page: Page;
  say(text: string): Promise<void>;
  /** What people and the agent have said, as it stands there now. */
  said(): Promise<string[]>;
  /** Waits until that is so. */
  shows(...said: string[]): Promise<void>;
  /** Waits until the agent is in the middle of saying this. */
  isSaying(text: string): Promise<void>;
  /** Waits until it asks, and has nothing else to do. */
  asks(): Promise<void>;
  threadId(): string;
}>;

type App = TestEngine &
  Readonly<{ context: BrowserContext; open(threadId?: string): Promise<Tab>; replaceApi(): Promise<void> }>;

async function withApp({ page: name, transport }: (typeof HOOKS)[number], work: (app: App) => Promise<void>) {
  const [browser, pages, script] = await Promise.all([startChromium(), startPages(), bundle(name)]);
  try {
    await withEngine({ graphs: { chat } }, async (engine) => {
      let server = await serveApi(engine.app, { port: 0 });
      const context = await browser.newContext();
      context.setDefaultTimeout(30_000);
      const at = JSON.stringify({ apiUrl: server.url, transport });
      const body = `<div id="root"></div><script>window.server = ${at}</script><script type="module">${script}</script>`;
      pages.serve(
        `<!doctype html><html lang="en"><meta charset="utf-8"><title>Chat</title><body>${body}</body></html>`,
      );
      try {
        await work({
          ...engine,
          context,
          open: async (threadId = "") => openTab(await context.newPage(), `${pages.origin}/#${threadId}`),
          async replaceApi() {
            const { port } = server;
            await server.close({ graceMs: 0 });
            server = await serveApi(engine.anotherApp(), { port });
          },
        });
      } finally {
        await context.close();
        await server.close({ graceMs: 0 });
      }
    });
  } finally {
    await Promise.all([browser.close(), pages.close()]);
  }
}

async function openTab(page: Page, url: string): Promise<Tab> {
  await page.goto(url);
  const said = () => page.locator("li > span").allTextContents();
  return {
    page,
    said,
    async say(text) {
      await page.fill("#text", text);
      await page.click("#send");
    },
    async shows(...expected) {
      await expect.poll(said, { timeout: 30_000 }).toEqual(expected);
      await expect.poll(() => page.textContent("#loading"), { timeout: 30_000 }).toBe("false");
      expect(await page.textContent("#error")).toBe("");
    },
    async asks() {
      await page.waitForSelector("#approve");
      await expect.poll(() => page.textContent("#loading"), { timeout: 30_000 }).toBe("false");
    },
    async isSaying(text) {
      await until(`"${text.slice(0, 10)}…" is being said`, async () => {
        const last = (await said()).at(-1) ?? "";
        return last.length > 10 && last.length < text.length && text.startsWith(last);
      });
    },
    threadId: () => new URL(page.url()).hash.slice(1),
  };
}

describe.runIf(hasChromium).each(HOOKS)("$name", (hook) => {
  it("shows an answer while it is being said, and the conversation goes on", async () => {
    await withApp(hook, async ({ open }) => {
      const tab = await open();
      await tab.say("count 60");
      await tab.isSaying(words(60));
      await tab.shows("count 60", words(60));
      await tab.say("count 3");
      await tab.shows("count 60", words(60), "count 3", words(3));
    });
  });

  it("shows a question, answers it, also after a reload", async () => {
    await withApp(hook, async ({ open, client }) => {
      const tab = await open();
      await tab.say("pay");
      await tab.asks();
      expect(await tab.page.textContent("#question")).toContain("Pay 40 €?");
      expect((await client.threads.get(tab.threadId())).status).toBe("interrupted");
      await tab.page.click("#approve");
      await tab.shows("pay", "paid: yes");
      expect(await tab.page.locator("#question").count()).toBe(0);

      // On another thread: two answers without a question's id in one moment are taken for a double click.
      const second = await open();
      await second.say("pay");
      await second.asks();
      await second.page.reload();
      await second.asks();
      await second.page.click("#approve");
      await second.shows("pay", "paid: yes");
    });
  });

  it("joins its run again when the page is reloaded in the middle of it, and in a second tab", async () => {
    await withApp(hook, async ({ open, client }) => {
      const tab = await open();
      await tab.say("count 300");
      await tab.isSaying(words(300));
      await tab.page.reload();
      await tab.isSaying(words(300));
      const second = await open(tab.threadId());
      // The SDK's own hook keeps which run it was at with the tab; another tab shows what is stored.
      if (hook.page === "current") await second.isSaying(words(300));
      await tab.shows("count 300", words(300));
      if (hook.page === "legacy") await second.page.reload();
      await second.shows("count 300", words(300));
      expect(await client.runs.list(tab.threadId())).toHaveLength(1);
    });
  });

  it("stops a run on the server, too, and the thread takes the next", async () => {
    await withApp(hook, async ({ open, client }) => {
      const tab = await open();
      await tab.say("count 2000");
      await tab.isSaying(words(2000));
      await tab.page.click("#stop");
      await expect.poll(async () => (await client.runs.list(tab.threadId()))[0]?.status).toBe("interrupted");
      await expect.poll(() => tab.page.textContent("#loading")).toBe("false");
      await tab.say("count 2");
      // What was cut off stays on the page until it is loaded anew: the agent has not said it.
      await expect.poll(tab.said, { timeout: 30_000 }).toEqual(expect.arrayContaining(["count 2", words(2)]));
      await expect.poll(() => tab.page.textContent("#loading"), { timeout: 30_000 }).toBe("false");
      await tab.page.reload();
      await tab.shows("count 2000", "count 2", words(2));
    });
  });

  it("edits an earlier message: the thread goes on from there, and keeps what was", async () => {
    await withApp(hook, async ({ open, client }) => {
      const tab = await open();
      await tab.say("count 2");
      await tab.shows("count 2", words(2));
      await tab.say("count 3");
      await tab.shows("count 2", words(2), "count 3", words(3));
      await tab.page.fill("#text", "count 4");
      await tab.page.locator(".edit:enabled").first().click();
      // @langchain/react takes states of lower steps for old ones, and keeps what it showed beside them until it is loaded anew.
      await expect.poll(tab.said, { timeout: 30_000 }).toEqual(expect.arrayContaining(["count 4", words(4)]));
      if (hook.page === "legacy") await tab.shows("count 4", words(4));
      await tab.page.reload();
      await tab.shows("count 4", words(4));
      const history = JSON.stringify(await client.threads.getHistory(tab.threadId(), { limit: 50 }));
      for (const n of [2, 3, 4]) expect(history).toContain(`"${words(n)}"`);
      if (hook.page !== "legacy") return;
      await tab.page.locator(".branch").first().click();
      await expect.poll(tab.said).toEqual(["count 2", words(2), "count 3", words(3)]);
    });
  });

  it("shows another thread when it is switched to, and the first again, with the run that went on there", async () => {
    await withApp(hook, async ({ open }) => {
      const tab = await open();
      await tab.say("count 4");
      await tab.shows("count 4", words(4));
      const first = tab.threadId();
      const go = (threadId: string) => tab.page.evaluate(`location.hash = ${JSON.stringify(threadId)}`);
      await go("");
      await tab.shows();
      await tab.say("count 5");
      await tab.shows("count 5", words(5));
      expect(tab.threadId()).not.toBe(first);
      const second = tab.threadId();
      await go(first);
      await tab.shows("count 4", words(4));
      await tab.say("count 200");
      await tab.isSaying(words(200));
      await go(second);
      await expect.poll(tab.said).toEqual(["count 5", words(5)]);
      await go(first);
      if (hook.page === "current") await tab.isSaying(words(200));
      await expect
        .poll(
          async () => {
            const said = await tab.said();
            // The SDK's own hook shows what is stored; it is asked again.
            if (hook.page === "legacy" && said.length < 4) await tab.page.reload();
            return said;
          },
          { timeout: 30_000, interval: 500 },
        )
        .toEqual(["count 4", words(4), "count 200", words(200)]);
    });
  });

  it("goes on when the API process is replaced in the middle of a run, without a word lost or said twice", async () => {
    await withApp(hook, async ({ open, replaceApi }) => {
      const tab = await open();
      await tab.say("count 400");
      await tab.isSaying(words(400));
      await replaceApi();
      await tab.shows("count 400", words(400));
      await tab.say("count 3");
      await tab.shows("count 400", words(400), "count 3", words(3));
    });
  });
});
