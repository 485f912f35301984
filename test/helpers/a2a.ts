// The stock clients of A2A 0.3 and 1.0, spoken to and heard in one way.
import { SendMessageRequest, taskStateToJSON, type TaskState } from "@a2a-js/sdk";
import {
  ClientFactory as Factory1,
  DefaultAgentCardResolver as Resolver1,
  JsonRpcTransportFactory as Transports1,
} from "@a2a-js/sdk/client";
import {
  ClientFactory as Factory0,
  DefaultAgentCardResolver as Resolver0,
  JsonRpcTransportFactory as Transports0,
} from "a2a-sdk-0.3/client";

export type Said = Readonly<{
  text?: string;
  data?: unknown;
  messageId?: string;
  contextId?: string;
  taskId?: string;
  /** Comes back as it begins. */
  atOnce?: boolean;
}>;
export type Heard = Readonly<{ id: string; contextId: string; state: string; said: string; asked: string }>;
export type Told = Readonly<{ kind: string; text: string; state?: string | undefined; id?: string; append?: boolean }>;
export type Agent = Readonly<{
  name: string;
  send(said: Said): Promise<Heard>;
  stream(said: Said): AsyncGenerator<Told>;
  get(id: string): Promise<Heard>;
  cancel(id: string): Promise<Heard>;
  resubscribe(id: string): AsyncGenerator<Told>;
}>;

type Options = Readonly<{ url: string; fetch: typeof globalThis.fetch; assistant: string }>;
const cardPath = (assistant: string) => `/.well-known/agent-card.json?assistant_id=${assistant}`;
const idOf = ({ messageId = crypto.randomUUID() }: Said) => messageId;

/** What of their answers both have, under the names of 0.3. */
type Part = Readonly<{ text?: string; data?: unknown; content?: Readonly<{ $case: string; value: unknown }> }>;
type Wire = Readonly<{
  id: string;
  contextId: string;
  status?: Readonly<{ state: unknown; message?: Readonly<{ parts: Part[] }> }>;
  artifacts?: Readonly<{ parts: Part[] }>[];
}>;

function shown(parts: readonly Part[] = []): string {
  return parts
    .map(
      ({ text, data, content }) =>
        text ?? (content?.$case === "text" ? String(content.value) : JSON.stringify(data ?? content?.value)),
    )
    .join("");
}

function heard(stateOf: (state: unknown) => string, task: Wire): Heard {
  return {
    id: task.id,
    contextId: task.contextId,
    state: stateOf(task.status?.state),
    said: (task.artifacts ?? []).map(({ parts }) => shown(parts)).join("\n"),
    asked: shown(task.status?.message?.parts),
  };
}

export async function agent0({ url, fetch, assistant }: Options): Promise<Agent> {
  const factory = new Factory0({
    transports: [new Transports0({ fetchImpl: fetch })],
    cardResolver: new Resolver0({ fetchImpl: fetch }),
  });
  const client = await factory.createFromUrl(url, cardPath(assistant));
  const state = String;
  const params = (said: Said) => ({
    message: {
      ...{ kind: "message" as const, messageId: idOf(said), role: "user" as const },
      parts: [
        ...(said.text === undefined ? [] : [{ kind: "text" as const, text: said.text }]),
        ...(said.data === undefined ? [] : [{ kind: "data" as const, data: said.data as Record<string, unknown> }]),
      ],
      ...(said.contextId !== undefined && { contextId: said.contextId }),
      ...(said.taskId !== undefined && { taskId: said.taskId }),
    },
    configuration: { blocking: said.atOnce !== true },
  });
  async function* told(events: AsyncIterable<unknown>): AsyncGenerator<Told> {
    for await (const each of events) {
      const event = each as Wire & { kind: string; artifact?: { artifactId: string; parts: Part[] }; append?: boolean };
      const { artifact, append } = event;
      yield {
        ...{ kind: event.kind, text: shown(artifact?.parts ?? event.status?.message?.parts) },
        ...(event.status !== undefined && { state: state(event.status.state) }),
        ...(event.kind === "task" && { id: event.id }),
        ...(artifact !== undefined && { id: artifact.artifactId, append: append ?? false }),
      };
    }
  }
  return {
    name: "0.3",
    send: async (said) => heard(state, (await client.sendMessage(params(said))) as Wire),
    stream: (said) => told(client.sendMessageStream(params(said))),
    get: async (id) => heard(state, (await client.getTask({ id })) as Wire),
    cancel: async (id) => heard(state, (await client.cancelTask({ id })) as Wire),
    resubscribe: (id) => told(client.resubscribeTask({ id })),
  };
}

export async function agent1({ url, fetch, assistant }: Options): Promise<Agent> {
  const factory = new Factory1({
    transports: [new Transports1({ fetchImpl: fetch })],
    cardResolver: new Resolver1({ fetchImpl: fetch }),
  });
  const client = await factory.createFromUrl(url, cardPath(assistant));
  const state = (given: unknown): string =>
    taskStateToJSON(given as TaskState)
      .replace("TASK_STATE_", "")
      .toLowerCase()
      .replace("_", "-");
  const params = (said: Said) =>
    SendMessageRequest.fromJSON({
      message: {
        ...{ messageId: idOf(said), role: "ROLE_USER", contextId: said.contextId, taskId: said.taskId },
        parts: [
          ...(said.text === undefined ? [] : [{ text: said.text }]),
          ...(said.data === undefined ? [] : [{ data: said.data }]),
        ],
      },
      configuration: { returnImmediately: said.atOnce === true },
    });
  const of = (id: string) => ({ tenant: "", id });
  const kinds: Record<string, string> = { statusUpdate: "status-update", artifactUpdate: "artifact-update" };
  async function* told(events: AsyncIterable<unknown>): AsyncGenerator<Told> {
    for await (const each of events) {
      const { payload } = each as {
        payload: {
          $case: string;
          value: Wire & { artifact?: { artifactId: string; parts: Part[] }; append?: boolean };
        };
      };
      const { status, artifact, append, id } = payload.value;
      const kind = kinds[payload.$case] ?? payload.$case;
      yield {
        ...{ kind, text: shown(artifact?.parts ?? status?.message?.parts) },
        ...(status !== undefined && { state: state(status.state) }),
        ...(kind === "task" && { id }),
        ...(artifact !== undefined && { id: artifact.artifactId, append: append ?? false }),
      };
    }
  }
  return {
    name: "1.0",
    send: async (said) => heard(state, (await client.sendMessage(params(said))) as unknown as Wire),
    stream: (said) => told(client.sendMessageStream(params(said))),
    get: async (id) => heard(state, (await client.getTask({ ...of(id), historyLength: 5 })) as unknown as Wire),
    cancel: async (id) =>
      heard(state, (await client.cancelTask({ ...of(id), metadata: undefined })) as unknown as Wire),
    resubscribe: (id) => told(client.resubscribeTask(of(id))),
  };
}
