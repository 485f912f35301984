// WhatsApp: the window is judged when a message is sent; what may not be sent is announced once, and comes when it is asked for. Receipts
// find out what became of a message.
import { expect, it } from "vitest";
import { withWhatsApp } from "../helpers/whatsapp.js";
import { until } from "../helpers/wait.js";

it("a message is answered, and receipts say that it was delivered, whatever order they come in", async () => {
  await withWhatsApp({}, async ({ whatsapp, statuses }) => {
    whatsapp.receipts({ statuses: ["read", "delivered", "sent"], times: 2 });
    expect(await whatsapp.says("hello")).toBe(200);
    await until("it is read", async () => (await statuses()).join() === "read");
    expect(whatsapp.messages().map(({ text }) => text)).toEqual(["you said *hello*"]);
  });
});

it("a receipt that comes before the answer says that the message went out, once", async () => {
  await withWhatsApp({}, async ({ whatsapp, statuses, deps: { db } }) => {
    whatsapp.fails("hang");
    await whatsapp.says("hello");
    await until("it is delivered", async () => (await statuses()).join() === "delivered");
    // What never answers is cut off.
    await whatsapp.close();
    const settled = async () => (await db.query("select 1 from delivery_attempts where settled_at is not null")).rows;
    await until("its try is over", async () => (await settled()).length === 1);
    expect((await db.query("select status, attempts from deliveries")).rows).toEqual([
      { status: "delivered", attempts: 1 },
    ]);
  });
});

it("a message after the window is announced once, and comes when the person asks for it, on the same thread", async () => {
  const template = { name: "followup_ready", language: "en_US", parameters: ["your order"] };
  await withWhatsApp({ template }, async ({ whatsapp, statuses, closeWindow, post, deps: { db } }) => {
    await whatsapp.says("hello");
    await until("it is answered", () => whatsapp.messages().length === 1);
    await closeWindow();
    await post(["your order is here", "and its bill"]);
    await until("it is announced", () => whatsapp.messages().length === 2);
    await until("both wait", async () => (await statuses()).filter((status) => status === "parked").length === 2);
    expect(whatsapp.messages().at(-1)).toMatchObject({ type: "template", text: "followup_ready" });
    expect(await whatsapp.presses("Show me")).toBe(200);
    await until("both have come", () => whatsapp.messages().length === 4);
    const texts = whatsapp.messages().map(({ text }) => text);
    expect(texts.slice(2)).toEqual(["your order is here", "and its bill"]);
    await whatsapp.says("thanks");
    await until("the conversation goes on", () => whatsapp.messages().length === 5);
    expect((await db.query("select 1 from threads")).rows).toHaveLength(1);
  });
});

it("without a template it waits, and nothing goes anywhere else", async () => {
  await withWhatsApp({}, async ({ whatsapp, statuses, closeWindow, post }) => {
    await whatsapp.says("hello");
    await until("it is answered", () => whatsapp.messages().length === 1);
    await closeWindow();
    await post(["your order is here"]);
    await until("it waits", async () => (await statuses()).includes("parked"));
    expect(whatsapp.messages()).toHaveLength(1);
  });
});

it("a message that was taken and fails later for the window is announced once, however often that is told", async () => {
  const template = { name: "followup_ready", language: "en_US" };
  await withWhatsApp({ template }, async ({ whatsapp, statuses, post }) => {
    await whatsapp.says("hello");
    await until("it is answered", () => whatsapp.messages().length === 1);
    whatsapp.receipts({ statuses: ["failed"], errorCode: 131_047, times: 2 });
    await post(["your order is here"]);
    await until("it was tried, and announced", () => whatsapp.messages().some(({ type }) => type === "template"));
    await until("it waits", async () => (await statuses()).includes("parked"));
    expect(whatsapp.messages().filter(({ type }) => type === "template")).toHaveLength(1);
  });
});

it("a webhook with a wrong signature, or changed by a byte, stores nothing", async () => {
  await withWhatsApp({}, async ({ url, deps: { db } }) => {
    const headers = { "content-type": "application/json", "x-hub-signature-256": "sha256=00" };
    const response = await fetch(url, { method: "POST", headers, body: JSON.stringify({ entry: [] }) });
    expect(response.status).toBe(401);
    expect((await db.query("select 1 from inbound_events")).rows).toEqual([]);
  });
});

it("the handshake answers who knows the verify token", async () => {
  await withWhatsApp({}, async ({ url }) => {
    const ask = (token: string) => fetch(`${url}?hub.mode=subscribe&hub.verify_token=${token}&hub.challenge=42`);
    expect(await (await ask("verify-me")).text()).toBe("42");
    expect((await ask("wrong")).status).toBe(403);
  });
});
