// Who may read and write what: sessions, the tenant's word for who somebody is, and the pages that may ask.
import { AIMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { SignJWT, UnsecuredJWT } from "jose";
import { expect, it } from "vitest";
import { newVisitor, signTokens } from "../../src/api/widget/tokens.js";
import type { ChannelAccountId } from "../../src/core/ids.js";
import { findAccount } from "../../src/delivery/accounts.js";
import { IDENTITY_SECRET, ORIGIN, type Page, type Widget, withWidget } from "../helpers/widget.js";

const agent = new StateGraph(MessagesAnnotation)
  .addNode("answer", () => ({ messages: [new AIMessage("yes")] }))
  .addEdge(START, "answer")
  .addEdge("answer", END)
  .compile();
const options = { graphs: { agent }, workers: 0 };

const identity = (claims: Record<string, unknown>, secret = IDENTITY_SECRET) =>
  new SignJWT(claims).setProtectedHeader({ alg: "HS256" }).sign(new TextEncoder().encode(secret));
const inSeconds = (seconds: number) => Math.floor(Date.now() / 1_000) + seconds;

async function statusWith(widget: Widget, page: Page, token: string, headers = {}): Promise<number> {
  const path = `/v1/widget/conversations/${page.conversationId}/items`;
  return (await widget.call("GET", path, undefined, { authorization: `Bearer ${token}`, ...headers })).status;
}

/** Tokens as they were an hour ago. */
async function oldToken(widget: Widget): Promise<string> {
  const row = await findAccount(widget.deps.db, widget.accountId as ChannelAccountId);
  const opened = widget.engine.accounts.opened(row!);
  const then = new Date(Date.now() - 60 * 60_000);
  return (await signTokens(opened, newVisitor("00000000-0000-7000-8000-000000000000"), ORIGIN, then)).token;
}

it("only a session that is whole, in time, and of that conversation reads it", async () => {
  await withWidget(options, async (widget) => {
    const page = await widget.visit();
    const other = await widget.visit();
    const elsewhere = await widget.addAccount("another shop");
    const there = await widget.visit({ account: elsewhere });
    const [header = "", body = "", signature = ""] = page.token.split(".");
    const claims = JSON.parse(Buffer.from(body, "base64url").toString()) as Record<string, unknown>;
    const forged = Buffer.from(JSON.stringify({ ...claims, sub: "ada" })).toString("base64url");
    expect(await statusWith(widget, page, page.token)).toBe(200);
    expect(await statusWith(widget, page, other.token)).toBe(404);
    expect(await statusWith(widget, page, there.token)).toBe(404);
    for (const bad of [
      ...[`${header}.${forged}.${signature}`, `${header}.${body}.AAAA`, "none", "", page.refreshToken],
      ...[
        await oldToken(widget),
        new UnsecuredJWT(claims).encode(),
        await identity({ sub: "ada", exp: inSeconds(60) }),
      ],
    ]) {
      expect(await statusWith(widget, page, bad)).toBe(401);
    }
    expect(
      (await page.ask("POST", "/approvals/00000000-0000-7000-8000-000000000000", { decision: "approve" })).status,
    ).toBe(404);
    const stolen = await widget.call("POST", "/v1/widget/sessions", {
      account: elsewhere,
      refresh_token: page.refreshToken,
    });
    expect(stolen.status).toBe(401);
    expect((await widget.visit({ refresh_token: page.refreshToken })).conversationId).toBe(page.conversationId);
  });
});

it("pages of other origins get nothing, and are not told that they may", async () => {
  await withWidget(options, async (widget) => {
    const page = await widget.visit();
    const evil = { origin: "https://evil.example" };
    const session = { account: widget.accountId };
    const path = `/v1/widget/conversations/${page.conversationId}/items`;
    const refused = await widget.call("POST", "/v1/widget/sessions", session, evil);
    expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([403, null]);
    expect((await widget.call("POST", "/v1/widget/sessions", session, { origin: "" })).status).toBe(403);
    expect(await statusWith(widget, page, page.token, evil)).toBe(403);
    const asked = { "access-control-request-method": "GET", "access-control-request-headers": "authorization" };
    const preflight = await widget.call("OPTIONS", path, undefined, asked);
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get("access-control-allow-origin")).toBe(ORIGIN);
    expect(preflight.headers.get("access-control-allow-credentials")).toBeNull();
    expect(preflight.headers.get("vary")).toMatch(/Origin/);
    const denied = await widget.call("OPTIONS", path, undefined, { ...asked, ...evil });
    expect(denied.headers.get("access-control-allow-origin")).toBeNull();
    const settings = { allowed_origins: ["https://new.example"] };
    await widget.call("PATCH", `/v1/channel-accounts/${widget.accountId}`, { settings });
    expect(await statusWith(widget, page, page.token)).toBe(403);
  });
});

it("whom the tenant's server names is the same person in each browser, for as long as it says", async () => {
  await withWidget(options, async (widget) => {
    const named = { identity: await identity({ sub: "ada", exp: inSeconds(600), name: "Ada <b>" }) };
    const [here, there] = [await widget.visit(named), await widget.visit(named)];
    expect(there.conversationId).toBe(here.conversationId);
    expect(await here.says("hello")).toMatchObject({ status: 200 });
    const [conversation] = (await widget.deps.db.query("select person, address from conversations")).rows;
    expect(conversation).toMatchObject({ person: { id: "ada", name: "Ada <b>" }, address: { contact: "ada" } });
    const account = widget.accountId;
    for (const bad of [
      await identity({ sub: "ada", exp: inSeconds(-60) }),
      await identity({ sub: "ada" }),
      await identity({ exp: inSeconds(60) }),
      await identity({ sub: "visitor:1", exp: inSeconds(60) }),
      await identity({ sub: "ada", exp: inSeconds(60) }, "another secret of more than 32 characters"),
      new UnsecuredJWT({ sub: "ada", exp: inSeconds(60) }).encode(),
    ]) {
      expect((await widget.call("POST", "/v1/widget/sessions", { account, identity: bad })).status).toBe(401);
    }
    const closed = await widget.addAccount("members only", { anonymous: false });
    expect((await widget.call("POST", "/v1/widget/sessions", { account: closed })).status).toBe(401);
    expect((await widget.visit({ account: closed, ...named })).conversationId).not.toBe(here.conversationId);
  });
});

it("refuses what can't be meant, and more than anybody has to say", async () => {
  await withWidget(options, async (widget) => {
    const page = await widget.visit();
    for (const body of [{}, { client_message_id: "a b", text: "x" }, { client_message_id: "a", text: " " }]) {
      expect((await page.ask("POST", "/messages", body)).status).toBe(422);
    }
    expect((await page.says("x".repeat(10_001))).status).toBe(422);
    expect((await page.says("x".repeat(70_000))).status).toBe(413);
    expect((await page.ask("GET", "/items?before=nothing")).status).toBe(422);
    for (const settings of [{}, { allowed_origins: ["*"] }, { allowed_origins: ["https://shop.example/"] }]) {
      const account = { kind: "web", name: "bad", settings: { assistant_id: "agent", ...settings } };
      expect((await widget.call("POST", "/v1/channel-accounts", account)).status).toBe(422);
    }
    expect((await widget.deps.db.query("select 1 from runs")).rows).toEqual([]);
  });
});

it("the script is for every page, and is sent once", async () => {
  await withWidget(options, async (widget) => {
    const first = await widget.call("GET", "/v1/widget.js");
    expect(first.status).toBe(200);
    expect(first.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
    const etag = first.headers.get("etag") ?? "";
    expect((await widget.call("GET", "/v1/widget.js", undefined, { "if-none-match": etag })).status).toBe(304);
  });
});
