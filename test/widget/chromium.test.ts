// The widget on a page, in a real browser.
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import axeCore from "axe-core";
import type { BrowserContext, Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { approve } from "../../src/engine/approve.js";
import { hasChromium, startChromium, startPages } from "../helpers/chromium.js";
import { until } from "../helpers/wait.js";
import { type Widget, withWidget } from "../helpers/widget.js";

const HOSTILE = [
  '<img src=x onerror="window.pwned=1"><script>window.pwned=2</script><a href="javascript:window.pwned=3">html</a>',
  "[link](javascript:window.pwned=4) [data](data:text/html,<script>window.pwned=5</script>) [good](https://example.com/a)",
  "![leak](http://127.0.0.1:9/leak?said=secret) <svg onload=window.pwned=6>",
  '<style>*{display:none}</style><iframe src="http://127.0.0.1:9/frame"></iframe> the end',
].join("\n\n");

const agent = new StateGraph(MessagesAnnotation)
  .addNode("answer", ({ messages }: { messages: BaseMessage[] }) => {
    const said = messages.at(-1)?.text ?? "";
    if (said === "hostile") return { messages: [new AIMessage(HOSTILE)] };
    if (said !== "pay") return { messages: [new AIMessage(`you said **${said}**`)] };
    return { messages: [new AIMessage(approve({ question: "Pay 40 €?" }).approved ? "paid" : "not paid")] };
  })
  .addEdge(START, "answer")
  .addEdge("answer", END)
  .compile();

type Styled = { getComputedStyle(of: unknown): { borderRadius: string } };

type Shop = Widget &
  Readonly<{
    /** A browser with its own storage; each of its pages is a tab. */
    context: BrowserContext;
    open(): Promise<Page>;
    serve(attributes?: string, headers?: Readonly<Record<string, string>>): void;
    /** Makes the agent get back to the person, as if its time had come. */
    followUp(text: string): Promise<void>;
    statuses(): Promise<string[]>;
  }>;

async function withShop(work: (shop: Shop) => Promise<void>, viewport = { width: 1000, height: 720 }): Promise<void> {
  const [browser, pages] = await Promise.all([startChromium(), startPages()]);
  try {
    await withWidget({ graphs: { agent } }, async (widget) => {
      const account = await widget.addAccount("page", { allowed_origins: [pages.origin] });
      const context = await browser.newContext({ viewport });
      context.setDefaultTimeout(30_000);
      const serve: Shop["serve"] = (attributes = "", headers) => {
        const script = `<script nonce="n0nce" src="${widget.url}/v1/widget.js" data-account="${account}" data-title="Lamps &amp; more" ${attributes}></script>`;
        const body = `<main><h1>Lamps</h1><p><a href="#">A link</a></p></main>${script}`;
        pages.serve(`<!doctype html><html lang="en"><title>Shop</title><body>${body}</body></html>`, headers);
      };
      serve();
      const statuses = async () =>
        (await widget.deps.db.query<{ status: string }>("select status from deliveries order by seq")).rows.map(
          ({ status }) => status,
        );
      await work({
        ...widget,
        ...{ context, serve, statuses },
        async open() {
          const page = await context.newPage();
          await page.goto(pages.origin);
          return page;
        },
        async followUp(text) {
          const { rows } = await widget.deps.db.query<{ thread_id: string }>("select thread_id from conversations");
          const body = { about: text, instruction: text, mode: "remind", when: { in: "PT1H" } };
          const made = await widget.call("POST", `/v1/threads/${rows[0]?.thread_id}/followups`, body);
          if (made.status !== 201) throw new Error(JSON.stringify(made.json));
          await widget.deps.db.query("update timers set due_at = clock_timestamp() where kind = 'followup'");
        },
      });
      await context.close();
    });
  } finally {
    await Promise.all([browser.close(), pages.close()]);
  }
}

const launcher = (page: Page) => page.getByRole("button", { name: /Open chat/ });
/** In the page, whose own types aren't those of these tests. */
const hasFocus = (each: unknown): boolean =>
  (each as { getRootNode(): { activeElement: unknown } }).getRootNode().activeElement === each;
const input = (page: Page) => page.getByRole("textbox", { name: "Your message" });
const log = (page: Page) => page.getByRole("log", { name: "Messages" });

async function says(page: Page, text: string): Promise<void> {
  await input(page).fill(text);
  await input(page).press("Enter");
}

/** Waits until the texts of all messages are those. */
async function shows(page: Page, texts: readonly string[]): Promise<void> {
  const shown = () => log(page).locator(".text").allInnerTexts();
  await until(`the page shows ${texts.join(" | ")}`, async () => (await shown()).join("|") === texts.join("|")).catch(
    async (error: unknown) => {
      throw new Error(`${String(error)}; it shows ${JSON.stringify(await shown())}`);
    },
  );
}

async function violations(page: Page): Promise<unknown[]> {
  await page.evaluate(axeCore.source);
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };
    };
    return (await axe.run()).violations.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html)]);
  });
  return found;
}

describe.skipIf(!hasChromium)("the widget", () => {
  it("shows what came while the page was closed once in each of two tabs, of which one listens", async () => {
    await withShop(async ({ context, open, followUp, statuses, deps }) => {
      const first = await open();
      await launcher(first).click();
      await says(first, "hello");
      await shows(first, ["hello", "you said hello"]);
      await until("it is read", async () => (await statuses()).join() === "read");
      await first.close();

      await followUp("Your order is on its way");
      await until("it is in the inbox", async () => (await statuses()).length === 2);
      expect(await statuses()).toEqual(["read", "sent"]);
      const streams: string[] = [];
      context.on("request", (request) => void (request.url().includes("/events") && streams.push(request.url())));
      const tabs = [await open(), await open()];
      for (const tab of tabs) await tab.getByRole("button", { name: "Open chat, 1 unread message" }).waitFor();
      await until("a client has it", async () => (await statuses()).join() === "read,delivered");
      for (const tab of tabs) {
        await launcher(tab).click();
        await shows(tab, ["hello", "you said hello", "Your order is on its way"]);
      }
      await until("it is read", async () => (await statuses()).join() === "read,read");
      expect(streams).toHaveLength(1);

      await says(tabs[1]!, "thanks");
      const all = ["hello", "you said hello", "Your order is on its way", "thanks", "you said thanks"];
      for (const tab of tabs) await shows(tab, all);
      // The one that listened goes.
      await tabs[0]!.close();
      await followUp("It has arrived");
      await shows(tabs[1]!, [...all, "It has arrived"]);
      expect(streams).toHaveLength(2);
      expect((await deps.db.query("select 1 from conversations")).rows).toHaveLength(1);
    });
  });

  it("shows what agents write as text that can do nothing, on a page with a strict policy", async () => {
    await withShop(async ({ context, serve, open, url }) => {
      const policy = `default-src 'none'; script-src 'nonce-n0nce'; connect-src ${url}`;
      serve(`data-greeting="&lt;img src=x onerror=window.pwned=7&gt;"`, { "content-security-policy": policy });
      const asked: string[] = [];
      const complaints: string[] = [];
      context.on("request", (request) => void asked.push(request.url()));
      const page = await open();
      page.on("console", (message) => complaints.push(message.text()));
      await launcher(page).click();
      await says(page, "hostile");
      await log(page).getByText("the end").waitFor();
      const shown = log(page);
      expect(await shown.locator("img, script, svg, iframe, style").count()).toBe(0);
      const links = await shown.locator("a").evaluateAll((all) => all.map((each) => each.outerHTML));
      const safe = 'target="_blank" rel="noopener noreferrer nofollow"';
      expect(links.map((html) => html.replaceAll("&amp;", "&"))).toEqual([
        `<a href="https://example.com/a" ${safe}>good</a>`,
        `<a href="http://127.0.0.1:9/leak?said=secret" ${safe}>leak</a>`,
        `<a href="http://127.0.0.1:9/frame" ${safe}>http://127.0.0.1:9/frame</a>`,
      ]);
      expect(await shown.innerText()).toContain('<img src=x onerror="window.pwned=1">');
      expect(await shown.locator(".greeting").innerText()).toBe("<img src=x onerror=window.pwned=7>");
      await page.waitForTimeout(100);
      expect(await page.evaluate("window.pwned")).toBeUndefined();
      expect(asked.filter((each) => each.includes("127.0.0.1:9/"))).toEqual([]);
      expect(complaints).toEqual([]);
      const background = await page
        .locator(".panel")
        .evaluate((panel) => (globalThis as unknown as Styled).getComputedStyle(panel).borderRadius);
      expect(background).toBe("18px");
    });
  });

  it("is used by the keyboard alone, and reads right", async () => {
    await withShop(async ({ open }) => {
      const page = await open();
      expect(await violations(page)).toEqual([]);
      await page.keyboard.press("Tab");
      await page.keyboard.press("Tab");
      await page.keyboard.press("Enter");
      await until("the input has the focus", () => input(page).evaluate(hasFocus));
      await page.keyboard.type("hello");
      await page.keyboard.press("Shift+Enter");
      await page.keyboard.type("there");
      await page.keyboard.press("Enter");
      await log(page).getByText("you said hello").waitFor();
      await page.keyboard.type("pay");
      await page.keyboard.press("Enter");
      const yes = page.getByRole("button", { name: "Approve" });
      await yes.waitFor();
      expect(await violations(page)).toEqual([]);
      const tree = (await page.locator("[data-perdure-widget]").ariaSnapshot()).replaceAll(
        /\d{1,2}:\d\d [AP]M/g,
        "TIME",
      );
      expect(tree).toMatchInlineSnapshot(`
        "- dialog "Lamps & more":
          - heading "Lamps & more" [level=2]
          - button "Close chat"
          - log "Messages":
            - text: "Hello! How can we help? Today You said: hello there"
            - time: TIME
            - text: "Lamps & more said:"
            - paragraph:
              - text: you said
              - strong: hello there
            - time: TIME
            - text: "You said: pay"
            - time: TIME
            - text: "Lamps & more said:"
            - paragraph: Pay 40 €?
            - group "Your decision":
              - button "Approve"
              - button "Reject"
            - time: TIME
          - status
          - text: Your message
          - textbox "Your message":
            - /placeholder: Write a message…
          - button "Send" [disabled]
        - button "Close chat" [expanded]
        - status"
      `);
      await page.keyboard.press("Shift+Tab");
      await page.keyboard.press("Shift+Tab");
      expect(await yes.evaluate(hasFocus)).toBe(true);
      await page.keyboard.press("Enter");
      await shows(page, ["hello\nthere", "you said hello\nthere", "pay", "Pay 40 €?", "paid"]);
      await page.getByText("Approved", { exact: true }).waitFor();
      await page.keyboard.press("Escape");
      await until("the launcher has the focus", () => launcher(page).evaluate(hasFocus));
      expect(await page.getByRole("dialog").count()).toBe(0);
    });
  });

  it("asks every few seconds where no stream comes through, and sends later what was written offline, once", async () => {
    await withShop(async ({ context, open, followUp, deps }) => {
      await context.route("**/events*", (route) => route.abort());
      const page = await open();
      await launcher(page).click();
      await says(page, "hello");
      await shows(page, ["hello", "you said hello"]);
      await followUp("later");
      await shows(page, ["hello", "you said hello", "later"]);
      await context.setOffline(true);
      await says(page, "from the tunnel");
      await page.getByText("Sending…").waitFor();
      await page.getByText(/You are offline/).waitFor();
      await context.setOffline(false);
      await shows(page, ["hello", "you said hello", "later", "from the tunnel", "you said from the tunnel"]);
      expect((await deps.db.query("select 1 from inbox_items where payload is not null")).rows).toHaveLength(2);
    });
  });

  it("covers a small screen, and keeps the focus there", async () => {
    await withShop(
      async ({ open }) => {
        const page = await open();
        await launcher(page).click();
        const panel = page.getByRole("dialog", { name: "Lamps & more" });
        await until("it has risen", async () => (await panel.boundingBox())?.y === 0);
        expect(await panel.boundingBox()).toMatchObject({ x: 0, y: 0, width: 390, height: 700 });
        expect(await panel.getAttribute("aria-modal")).toBe("true");
        for (let n = 0; n < 5; n += 1) await page.keyboard.press("Tab");
        const outside = await page.evaluate("document.activeElement.hasAttribute('data-perdure-widget')");
        expect(outside).toBe(true);
        expect(await violations(page)).toEqual([]);
      },
      { width: 390, height: 700 },
    );
  });
});
