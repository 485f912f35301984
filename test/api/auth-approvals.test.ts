// Who answers a question is whom the door knows: a user with permissions as roles, or the holder of a key.
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { Auth } from "@langchain/langgraph-sdk/auth";
import { expect, it } from "vitest";
import { createApiKey } from "../../src/engine/commands/create-api-key.js";
import { withEngine } from "../helpers/engine.js";
import { clientAs, gateOf, sendAs, USER_HEADER } from "../helpers/users.js";

const ask = new StateGraph(Annotation.Root({ answer: Annotation<unknown> }))
  .addNode("ask", () => ({ answer: interrupt("may it?") }))
  .addEdge(START, "ask")
  .addEdge("ask", END)
  .compile();

/** Everybody sees all threads; the header names the user, then permissions. */
const auth = new Auth().authenticate((request) => {
  const [identity = "", ...permissions] = (request.headers.get(USER_HEADER) ?? "").split(" ");
  return { identity, permissions };
});

it("a decision is made by who may decide, under the name that the door knows", async () => {
  const approvals = { deciders: { people: ["ana"], roles: ["manager"] } };
  await withEngine({ graphs: { ask }, auth: gateOf(auth), approvals }, async ({ app, deps }) => {
    const client = clientAs(app, { [USER_HEADER]: "ben" });
    const openOne = async (): Promise<string> => {
      const { thread_id } = await client.threads.create();
      await client.runs.wait(thread_id, "ask", { input: {} });
      const open = JSON.parse(
        (await sendAs(app, "ben")("GET", `/v1/approvals?thread_id=${thread_id}`)).text,
      ) as object[];
      return (open[0] as { approval_id: string }).approval_id;
    };
    const decide = async (user: string, id: string, headers = {}) =>
      sendAs(app, user)("POST", `/v1/approvals/${id}/decide`, { value: "yes", decided_by: "root" }, headers);
    const decidedBy = async (id: string) =>
      (JSON.parse((await sendAs(app, "ben")("GET", `/v1/approvals/${id}`)).text) as { decided_by: string }).decided_by;

    const [first, second] = [await openOne(), await openOne()];
    const forged = { "x-perdure-person": "ana", "x-perdure-roles": "manager" };
    expect((await decide("ben", first, forged)).status).toBe(403);
    expect((await decide("ana", first)).status).toBe(200);
    expect(await decidedBy(first)).toBe("ana");
    expect((await decide("cid manager", second)).status).toBe(200);
    expect(await decidedBy(second)).toBe("cid");

    const third = await openOne();
    const { key } = await createApiKey(deps, { tenantId: "default", name: "k", scopes: ["*"], expiresInMs: null });
    // A key opens the route; whom the question is for it isn't.
    expect((await decide("", third, { "x-api-key": key })).status).toBe(403);
  });
});
