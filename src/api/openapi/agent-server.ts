// The operations of the Agent Server API, which stock clients speak.
import { commandBody, eventsBody } from "../protocol/schemas.js";
import { deleteQuery, graphQuery, subgraphsQuery } from "../routes/assistants.js";
import { readyQuery } from "../routes/meta.js";
import { historyQuery, stateQuery } from "../routes/state.js";
import { threadStreamQuery } from "../routes/thread-stream.js";
import { threadShow } from "../routes/threads.js";
import { uiBody } from "../routes/ui.js";
import * as assistants from "../schemas/assistants.js";
import * as crons from "../schemas/crons.js";
import * as runs from "../schemas/runs.js";
import * as store from "../schemas/store.js";
import * as threads from "../schemas/threads.js";
import { cardQuery } from "../a2a/routes.js";
import { rpcMessage } from "../json-rpc.js";
import { op, type Operations } from "./operation.js";

export const ASSISTANTS: Operations = {
  "POST /assistants": op("Make an assistant", { body: assistants.assistantCreate }),
  "POST /assistants/search": op("Find assistants", { body: assistants.assistantSearch }),
  "POST /assistants/count": op("Count assistants", { body: assistants.assistantCount }),
  "GET /assistants/:assistant_id": op("Read an assistant"),
  "PATCH /assistants/:assistant_id": op("Make a new version of an assistant", { body: assistants.assistantPatch }),
  "DELETE /assistants/:assistant_id": op("Delete an assistant with its versions", { query: deleteQuery }),
  "GET /assistants/:assistant_id/graph": op("Draw an assistant's graph", { query: graphQuery }),
  "GET /assistants/:assistant_id/schemas": op("Read the schemas of an assistant's graph"),
  "GET /assistants/:assistant_id/subgraphs/:namespace?": op("Read the schemas of its subgraphs", {
    query: subgraphsQuery,
  }),
  "POST /assistants/:assistant_id/versions": op("List the versions of an assistant", {
    body: assistants.assistantVersions,
  }),
  "POST /assistants/:assistant_id/latest": op("Have another version count", { body: assistants.assistantLatest }),
};

export const THREADS: Operations = {
  "POST /threads": op("Make a thread", { body: threads.threadCreate }),
  "POST /threads/search": op("Find threads", { body: threads.threadSearch }),
  "POST /threads/count": op("Count threads", { body: threads.threadCount }),
  "POST /threads/prune": op("Delete threads, or their old states", { body: threads.threadPrune }),
  "GET /threads/:thread_id": op("Read a thread", { query: threadShow }),
  "PATCH /threads/:thread_id": op("Label a thread, or say how long it is kept", { body: threads.threadPatch }),
  "DELETE /threads/:thread_id": op("Delete a thread with everything it owns", { answer: "nothing" }),
  "POST /threads/:thread_id/copy": op("Copy a thread with its states"),
  "GET /threads/:thread_id/storage": op("Say what a thread's states take"),
  "GET /threads/:thread_id/state": op("Read the newest state", { query: stateQuery }),
  "PATCH /threads/:thread_id/state": op("Label the thread", { body: threads.statePatch, answer: "nothing" }),
  "POST /threads/:thread_id/state": op("Edit the state", { body: threads.stateUpdate }),
  "GET /threads/:thread_id/state/:checkpoint_id": op("Read an older state", { query: stateQuery }),
  "POST /threads/:thread_id/state/checkpoint": op("Read the state at a checkpoint", {
    body: threads.stateAtCheckpoint,
  }),
  "GET /threads/:thread_id/history": op("List states, newest first", { query: historyQuery }),
  "POST /threads/:thread_id/history": op("List states, newest first", { body: threads.stateHistory }),
  "GET /threads/:thread_id/stream": op("Follow all that a thread's runs stream", {
    query: threadStreamQuery,
    answer: "events",
  }),
  "POST /threads/:thread_id/commands": op("Give a command of the thread protocol", { body: commandBody }),
  "POST /threads/:thread_id/stream/events": op("Follow a thread over the thread protocol", {
    body: eventsBody,
    answer: "events",
  }),
  "GET /threads/:thread_id/stream/events": op("Open a WebSocket of the thread protocol", { answer: "socket" }),
};

export const RUNS: Operations = {
  "POST /threads/:thread_id/runs": op("Make a run", { body: runs.runCreate }),
  "POST /threads/:thread_id/runs/stream": op("Make a run and stream it", {
    ...{ body: runs.runCreate, query: runs.runStreamCreate },
    answer: "events",
  }),
  "POST /threads/:thread_id/runs/wait": op("Make a run and wait for its end", { body: runs.runCreate }),
  "GET /threads/:thread_id/runs": op("List runs, newest first", { query: runs.runList }),
  "GET /threads/:thread_id/runs/:run_id": op("Read a run"),
  "GET /threads/:thread_id/runs/:run_id/record": op("Read what a resume of the run needs, and where it is"),
  "GET /threads/:thread_id/runs/:run_id/join": op("Wait for a run's end", { query: runs.runJoin }),
  "GET /threads/:thread_id/runs/:run_id/stream": op("Stream a run", { query: runs.runStream, answer: "events" }),
  "DELETE /threads/:thread_id/runs/:run_id": op("Delete a run with its states", { answer: "nothing" }),
  "POST /threads/:thread_id/runs/:run_id/cancel": op("Cancel a run", { query: runs.runCancel, answer: "nothing" }),
  "POST /runs": op("Make a run without a thread", { body: runs.statelessRunCreate }),
  "POST /runs/stream": op("Make a run without a thread and stream it", {
    ...{ body: runs.statelessRunCreate, query: runs.runStreamCreate },
    answer: "events",
  }),
  "POST /runs/wait": op("Make a run without a thread and wait for its end", { body: runs.statelessRunCreate }),
  "GET /runs/:run_id/stream": op("Stream a run", { query: runs.runStream, answer: "events" }),
  "POST /runs/batch": op("Make many runs without threads", { bodies: runs.statelessRunCreate }),
  "POST /runs/cancel": op("Cancel many runs", {
    ...{ body: runs.runsCancel, query: runs.runsCancelHow },
    answer: "nothing",
  }),
};

export const CRONS: Operations = {
  "POST /runs/crons": op("Have runs made by a rule, each on a thread of its own", { body: crons.cronCreate }),
  "POST /threads/:thread_id/runs/crons": op("Have runs made by a rule on a thread", { body: crons.threadCronCreate }),
  "POST /runs/crons/search": op("Find crons", { body: crons.cronSearch }),
  "POST /runs/crons/count": op("Count crons", { body: crons.cronCount }),
  "GET /runs/crons/:cron_id": op("Read a cron"),
  "PATCH /runs/crons/:cron_id": op("Change a cron", { body: crons.cronPatch }),
  "DELETE /runs/crons/:cron_id": op("Delete a cron"),
};

export const STORE: Operations = {
  "PUT /store/items": op("Put an item", { body: store.itemPut, answer: "nothing" }),
  "GET /store/items": op("Read an item", { query: store.itemGet }),
  "DELETE /store/items": op("Delete an item", { body: store.itemDelete, answer: "nothing" }),
  "POST /store/items/search": op("Find items", { body: store.itemSearch }),
  "POST /store/namespaces": op("List namespaces", { body: store.namespaceList }),
};

/** What is in their messages, these protocols say themselves. */
export const PROTOCOLS: Operations = {
  "POST /mcp": op("Speak MCP (streamable HTTP, without sessions): each agent is a tool", { body: rpcMessage }),
  "GET /mcp": op("There is nothing to listen to: 405"),
  "DELETE /mcp": op("There is no session to end: 405"),
  "POST /a2a/:assistant_id": op("Speak A2A (JSON-RPC, 0.3 and 1.0) with an agent", { body: rpcMessage }),
  "GET /a2a/:assistant_id/.well-known/agent-card.json": op("Read an agent's card"),
  "GET /.well-known/agent-card.json": op("Read an agent's card", { query: cardQuery }),
};

export const SYSTEM: Operations = {
  "GET /ok": op("Whether this process is ready", { query: readyQuery }),
  "GET /info": op("What this server is and can do"),
  "GET /metrics": op("Metrics, in the text format of Prometheus", { answer: "text" }),
  "GET /openapi.json": op("This description"),
  "GET /docs": op("This description as a page", { answer: "html" }),
  "POST /ui/:graph_id": op("What a page loads to show a graph's component", { body: uiBody, answer: "html" }),
  "GET /ui/:graph_id/:file": op("A file of a graph's components", { answer: "script" }),
  "GET /docs/:file": op("What that page is shown with", { answer: "script" }),
};
