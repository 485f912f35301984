// Every field that the stock client can send is known to the schema that reads it: it has an effect or is refused by
// name. The client is asked itself, so that a version with a new field fails here.
import { Client } from "@langchain/langgraph-sdk";
import { expect, test } from "vitest";
import type { z } from "zod";
import { assistantCount, assistantSearch } from "../../src/api/schemas/assistants.js";
import {
  stateAtCheckpoint,
  stateHistory,
  stateUpdate,
  threadCount,
  threadCreate,
  threadPatch,
  threadSearch,
} from "../../src/api/schemas/threads.js";

/** Has every property anybody asks for. */
function everything<T>(own: Readonly<Record<string, unknown>> = {}): T {
  const get = (_: object, key: string) => (key in own ? own[key] : "x");
  return new Proxy({}, { get }) as T;
}

async function fieldsSent(call: (client: Client) => Promise<unknown>): Promise<string[]> {
  let sent: object = {};
  const fetch = (_url: unknown, init?: RequestInit) => {
    sent = JSON.parse(String(init?.body)) as object;
    return Promise.resolve(Response.json({}));
  };
  await call(new Client({ apiUrl: "http://client.test", callerOptions: { fetch, maxRetries: 0 } }));
  return Object.keys(sent);
}

const unsent = { signal: undefined, metadata: {}, supersteps: [], returnMinimal: undefined };
const cases: Readonly<Record<string, readonly [z.ZodObject, (client: Client) => Promise<unknown>]>> = {
  "threads.create": [threadCreate, (c) => c.threads.create(everything(unsent))],
  "threads.update": [threadPatch, (c) => c.threads.update("t", everything(unsent))],
  "threads.search": [threadSearch, (c) => c.threads.search(everything(unsent))],
  "threads.count": [threadCount, (c) => c.threads.count(everything(unsent))],
  "threads.getState": [stateAtCheckpoint, (c) => c.threads.getState("t", everything(), everything(unsent))],
  "threads.updateState": [stateUpdate, (c) => c.threads.updateState("t", everything(unsent))],
  "threads.getHistory": [stateHistory, (c) => c.threads.getHistory("t", everything(unsent))],
  "assistants.search": [assistantSearch, (c) => c.assistants.search(everything(unsent))],
  "assistants.count": [assistantCount, (c) => c.assistants.count(everything(unsent))],
};

test.each(Object.entries(cases))("%s sends nothing that would be ignored", async (_, [schema, call]) => {
  const fields = await fieldsSent(call);
  expect(fields.length).toBeGreaterThan(1);
  expect(fields.filter((field) => !(field in schema.shape))).toEqual([]);
});
