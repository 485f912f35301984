// Users of one tenant, told apart by a header, each with their own threads: a project's `Auth` as the stock client's documentation has it.
import { Client } from "@langchain/langgraph-sdk";
import { Auth, HTTPException } from "@langchain/langgraph-sdk/auth";
import type { createApp } from "../../src/api/app.js";
import type { EngineSettings } from "../../src/compose.js";

type Module = Exclude<EngineSettings["auth"], "open">["module"];

export const USER_HEADER = "x-test-user";

/** Who may what: threads, assistants and crons by owner, store items by the first label. */
export function ownersAuth() {
  return new Auth()
    .authenticate((request) => {
      const [identity, ...permissions] = (request.headers.get(USER_HEADER) ?? "").split(" ");
      if (!identity) throw new HTTPException(401, { message: "Who are you?", headers: { "x-say": "who" } });
      return { identity, permissions };
    })
    .on(["threads", "assistants", "crons"], ({ action, value, user }) => {
      if (["create", "update", "create_run"].includes(action)) {
        const labelled = value as { metadata?: Record<string, unknown> };
        labelled.metadata = { ...labelled.metadata, owner: user.identity };
      }
      return { owner: user.identity };
    })
    .on("store", ({ value, user }) => {
      if (!("namespace" in value) || value.namespace?.[0] !== user.identity) throw new HTTPException(403);
    });
}

export function gateOf(auth: object): EngineSettings["auth"] {
  return { module: auth as Module, studio: false, jwt: null };
}

export type SendAs = (
  method: string,
  path: string,
  body?: unknown,
  headers?: Record<string, string>,
) => Promise<Readonly<{ status: number; text: string; headers: Headers }>>;

/** How a user asks: `user` may name permissions, too. */
export function sendAs(app: Pick<ReturnType<typeof createApp>, "request">, user: string): SendAs {
  return async (method, path, body, headers = {}) => {
    const response = await app.request(path, {
      method,
      headers: { [USER_HEADER]: user, "content-type": "application/json", ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, text: await response.text(), headers: response.headers };
  };
}

export function clientAs(app: Pick<ReturnType<typeof createApp>, "fetch">, headers: Record<string, string>): Client {
  const fetch: typeof globalThis.fetch = async (input, init) => app.fetch(new Request(input, init));
  return new Client({
    apiUrl: "http://perdure.test",
    apiKey: null,
    defaultHeaders: headers,
    callerOptions: { fetch, maxRetries: 0 },
  });
}
