// The web widget's inbox: what is said there is there once, for whoever reads it, however they lose their connection.
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { SignJWT } from "jose";
import { expect, it } from "vitest";
import { composeLoops } from "../../src/compose-loops.js";
import { approve } from "../../src/engine/approve.js";
import { until } from "../helpers/wait.js";
import { type Frame, IDENTITY_SECRET, type Page, readEvents, type Widget, withWidget } from "../helpers/widget.js";

const last = (messages: BaseMessage[]) => messages.at(-1)?.text ?? "";
const echo = new StateGraph(MessagesAnnotation)
  .addNode("answer", ({ messages }) => ({ messages: [new AIMessage(`you said **${last(messages)}**`)] }))
  .addEdge(START, "answer")
  .addEdge("answer", END)
  .compile();

const rowsOf = async <R extends object>({ deps }: Widget, sql: string, values: readonly unknown[] = []): Promise<R[]> =>
  (await deps.db.query<R>(sql, values)).rows;

const statuses = async (widget: Widget, conversationId: string): Promise<string[]> => {
  const ofIts = "select status from deliveries where conversation_id = $1 order by seq";
  return (await rowsOf<{ status: string }>(widget, ofIts, [conversationId])).map(({ status }) => status);
};

const has = (count: number) => (frames: readonly Frame[]) => frames.filter(({ id }) => id !== null).length >= count;

it("what is written is answered there; it is delivered when a client has it, and read when it is seen", async () => {
  await withWidget({ graphs: { agent: echo } }, async (widget) => {
    const page = await widget.visit();
    const stranger = await widget.visit();
    expect(await page.items()).toEqual([]);
    const said = await page.says("hello");
    expect(said).toMatchObject({ status: 200, json: { client_message_id: "m1", seq: 1 } });
    const items = await until("the answer", async () => {
      const found = await page.items();
      return found.length === 2 && found;
    });
    expect(items).toMatchObject([
      { seq: 1, author: "person", text: "hello", id: "m1" },
      { seq: 2, author: "agent", text: "you said **hello**", approval: null },
    ]);
    // Looking is not having: a page that asked and died has shown nothing.
    expect(await statuses(widget, page.conversationId)).toEqual(["sent"]);
    expect((await page.ask("GET", "/items?after=2")).json).toMatchObject({ items: [], unread: 1, received_seq: 2 });
    expect(await statuses(widget, page.conversationId)).toEqual(["delivered"]);
    expect((await page.ask("POST", "/read", { up_to: 2 })).json).toMatchObject({ read_seq: 2, unread: 0 });
    expect((await page.ask("POST", "/read", { up_to: 1 })).json).toMatchObject({ read_seq: 2 });
    expect((await page.ask("POST", "/read", { up_to: 99 })).json).toMatchObject({ read_seq: 2 });
    expect(await statuses(widget, page.conversationId)).toEqual(["read"]);
    expect((await page.items("?before=2&limit=1")).map(({ seq }) => seq)).toEqual([1]);
    expect(await stranger.items()).toEqual([]);
    expect((await widget.call("GET", "/v1/deliveries")).json).toMatchObject([
      { channel: "web", status: "read", attempts: 1 },
    ]);
  });
});

it("a message that comes twenty times to two processes is one item, one run and one answer", async () => {
  await withWidget({ graphs: { agent: echo } }, async (widget) => {
    const page = await widget.visit();
    const other = await widget.visit({ refresh_token: page.refreshToken }, await widget.startApi());
    expect(other.conversationId).toBe(page.conversationId);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => (n % 2 ? page : other).says("once", "same")),
    );
    expect(new Set(answers.map(({ status, json }) => `${status} ${JSON.stringify(json)}`)).size).toBe(1);
    expect(answers[0]).toMatchObject({ status: 200, json: { seq: 1 } });
    await until("the answer", async () => (await page.items()).length === 2);
    expect(await page.says("once", "same")).toMatchObject({ status: 200, json: { seq: 1 } });
    expect(await rowsOf(widget, "select 1 from runs")).toHaveLength(1);
    expect(await page.items()).toHaveLength(2);
  });
});

it("streams tell what is stored, then what comes, and who is at work", async () => {
  let go = (): void => {};
  const gate = new Promise<void>((resolve) => (go = resolve));
  const slow = new StateGraph(MessagesAnnotation)
    .addNode("answer", async () => {
      await gate;
      return { messages: [new AIMessage("done")] };
    })
    .addEdge(START, "answer")
    .addEdge("answer", END)
    .compile();
  await withWidget({ graphs: { agent: slow } }, async (widget) => {
    const page = await widget.visit();
    let seen: readonly Frame[] = [];
    const frames = readEvents(widget.url, page, {}, (all) => {
      seen = all;
      return has(2)(all) && all.at(-1)?.event === "status";
    });
    await until("the stream stands", () => seen.length >= 2);
    await page.says("work");
    await until("it is typing", () => seen.some(({ event, data }) => event === "typing" && data["active"] === true));
    go();
    const told = (await frames).filter(({ event }) => event !== "status");
    expect(told.map(({ id, event, data }) => `${id} ${event} ${String(data["text"] ?? data["active"])}`)).toEqual([
      "null typing false",
      "1 message work",
      "null typing true",
      "2 message done",
      "null typing false",
    ]);
  });
});

/** A thousand messages to one conversation, by writers that know nothing of each other. */
async function post(widget: Widget, page: Page, writer: number, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    await widget.deps.db.query(
      `select post_deliveries('default', json_build_array(json_build_object('delivery_id', gen_random_uuid(),
        'source_kind', 'notice', 'source_id', gen_random_uuid(), 'part', 0, 'thread_id', c.thread_id,
        'conversation_id', c.conversation_id, 'kind', 'item', 'payload', json_build_object('text', $2::text)::text, 'on_unknown', 'hold')))
      from conversations c where c.conversation_id = $1`,
      [page.conversationId, `${writer}:${n}`],
    );
  }
}

it("clients that lose their connection again and again while four writers write miss nothing and have nothing twice", async () => {
  const each = process.env["PERDURE_SOAK"] === "1" ? 1_500 : 250;
  const total = 4 * each + 2;
  await withWidget({ graphs: { agent: echo } }, async (widget) => {
    const page = await widget.visit();
    await page.says("hello");
    await until("the answer", async () => (await page.items()).length === 2);
    const writing = Promise.all([0, 1, 2, 3].map((writer) => post(widget, page, writer, each)));
    const read = async (stop: (got: number) => number): Promise<Frame[]> => {
      const got: Frame[] = [];
      while (got.length < total) {
        const lastEventId = got.at(-1)?.id ?? 0;
        const enough = has(Math.min(stop(got.length), total - got.length));
        const frames = await readEvents(widget.url, page, { lastEventId }, enough);
        got.push(...frames.filter(({ id }) => id !== null));
      }
      return got;
    };
    const [steady, shaky] = await Promise.all([read(() => total), read((got) => 1 + ((got * 7) % 60)), writing]);
    for (const got of [steady, shaky]) {
      expect(got.map(({ id }) => id)).toEqual(Array.from({ length: total }, (_, n) => n + 1));
      expect(new Set(got.map(({ data }) => data["id"])).size).toBe(total);
    }
    const state = (await page.ask("GET", `/items?after=${total}`)).json;
    expect(state).toMatchObject({ last_seq: total, received_seq: total, unread: total - 1 });
  });
}, 600_000);

it("a follow-up comes to the conversation where it was asked for, which nobody has open", async () => {
  await withWidget({ graphs: { agent: echo } }, async (widget) => {
    const page = await widget.visit({ time_zone: "Asia/Tokyo" });
    await page.says("hello");
    await until("the answer", async () => (await page.items()).length === 2);
    const [conversation] = await rowsOf<{ thread_id: string; time_zone: string }>(
      widget,
      "select thread_id, time_zone from conversations",
    );
    expect(conversation?.time_zone).toBe("Asia/Tokyo");
    const body = { about: "it", instruction: "Remember it", mode: "remind", when: { in: "PT1H" } };
    const path = `/v1/threads/${conversation?.thread_id}/followups`;
    expect((await widget.call("POST", path, body)).status).toBe(201);
    await widget.deps.db.query("update timers set due_at = clock_timestamp() where kind = 'followup'");
    const items = await until("the reminder", async () => {
      const found = await page.items();
      return found.length === 3 && found;
    });
    expect(items.at(-1)).toMatchObject({ text: "Remember it", author: "agent" });
    expect(await statuses(widget, page.conversationId)).toEqual(["sent", "sent"]);
  });
});

it("a question is decided by its person, once, and everybody who reads sees how", async () => {
  const asks = new StateGraph(MessagesAnnotation)
    .addNode("ask", () => {
      const { approved } = approve({ question: "Pay 40 €?" });
      return { messages: [new AIMessage(approved ? "paid" : "not paid")] };
    })
    .addEdge(START, "ask")
    .addEdge("ask", END)
    .compile();
  await withWidget({ graphs: { agent: asks } }, async (widget) => {
    const page = await widget.visit();
    const stranger = await widget.visit();
    await page.says("pay");
    await stranger.says("pay too");
    const [, question] = await until("the question", async () => {
      const found = await page.items();
      return found.length === 2 && found;
    });
    expect(question).toMatchObject({ text: "Pay 40 €?", approval: { status: "pending" } });
    const path = `/approvals/${question?.approval?.approval_id}`;
    expect((await stranger.ask("POST", path, { decision: "approve" })).status).toBe(404);
    const presses = await Promise.all([1, 2, 3].map(() => page.ask("POST", path, { decision: "approve" })));
    expect(presses.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(presses.filter(({ json }) => json["message"] === "Approved.")).toHaveLength(1);
    const items = await until("the answer", async () => {
      const found = await page.items();
      return found.length === 3 && found;
    });
    expect(items.slice(1)).toMatchObject([{ approval: { status: "decided" } }, { text: "paid" }]);
    const state = (await page.ask("GET", "/items?after=3")).json;
    expect(state["approvals"]).toMatchObject([{ status: "decided" }]);
  });
});

it("what a schedule says to somebody who hasn't written yet is judged before it is in their inbox", async () => {
  await withWidget({ graphs: { agent: echo } }, async (widget) => {
    const { call, accountId } = widget;
    for (const key of ["ana", "bob"]) {
      const place = { channel_account_id: accountId, address: { contact: key } };
      const { conversation_id: id } = (await call("PUT", "/v1/conversations", place)).json;
      expect((await call("POST", "/v1/contacts", { key, conversation_ids: [id] })).status).toBe(201);
    }
    const audience = { where: [] };
    const schedule = { name: "news", about: "news", mode: "remind", time_zone: "UTC", jitter: "PT0S", audience };
    const made = await call("POST", "/v1/schedules", { ...schedule, when: { cron: "0 0 1 1 *" }, instruction: "News" });
    await call("POST", `/v1/schedules/${String(made.json["schedule_id"])}/run`, {});
    const waiting = "select 1 from deliveries where source_kind = 'outreach' and status = 'pending'";
    await until("both are posted", async () => (await rowsOf(widget, waiting)).length === 2);
    await call("POST", "/v1/suppressions", { contact_key: "bob" });
    const [deliverer] = composeLoops(widget.engine, ["deliverer"], { concurrency: 1 });
    deliverer?.start();
    const over = "select status from deliveries where settled_at is not null or status = 'suppressed' order by status";
    const statusesOf = async () => (await rowsOf<{ status: string }>(widget, over)).map(({ status }) => status);
    await until("both are judged", async () => (await statusesOf()).length === 2);
    await deliverer?.stop();
    expect(await statusesOf()).toEqual(["sent", "suppressed"]);
    const sign = (sub: string) =>
      new SignJWT({ sub })
        .setProtectedHeader({ alg: "HS256" })
        .setExpirationTime("5m")
        .sign(new TextEncoder().encode(IDENTITY_SECRET));
    const [ana, bob] = [
      await widget.visit({ identity: await sign("ana") }),
      await widget.visit({ identity: await sign("bob") }),
    ];
    expect(await ana.items()).toMatchObject([{ text: "News", seq: 1, author: "agent" }]);
    expect(await bob.items()).toEqual([]);
  });
});
