// The events of the thread protocol, made of what a run has stored. The same lines make the same events, ids and numbers
// included, in any process and at any time: nothing about a stream is kept in memory that the next reader would miss.
import { convertToProtocolEvent, inferChannel } from "@langchain/langgraph/stream";
import type { RunRow } from "../../runs/runs.js";
import type { StreamLine } from "../../runs/stream-chunks.js";
import { protocolMethod, RESULTS, TIME_LINE } from "../stream/protocol-names.js";
import { fieldsOf } from "../stream/shapes.js";
import { createTree, type Tree } from "./tree.js";

export type ProtocolEvent = Readonly<{
  seq: number;
  method: string;
  /** What subscriptions name it by. */
  channel: string;
  namespace: readonly string[];
  /** The whole event as JSON. */
  text(): string;
}>;

type Fields = Readonly<Record<string, unknown>>;
type Said = Readonly<{
  method: string;
  channel?: string;
  namespace: readonly string[];
  /** What stands in `params` after namespace and time: the text of an object. */
  rest: string;
  /** It is the server's word on the run, not the graph's. */
  ofRun?: boolean;
}>;

/** Numbers grow by one with each event of a run, from a number that its start gives; runs of a thread start one after the other. */
const SEQ_PER_MS = 1_000;

export type RunEvents = Readonly<{
  begin(): ProtocolEvent[];
  line(line: StreamLine): ProtocolEvent[];
  /** `run` as it is when it is over; `gone`: it was deleted before that. */
  end(run: RunRow, gone: boolean): ProtocolEvent[];
  tree: Tree;
}>;

export function createRunEvents(run: RunRow): RunEvents {
  const beganMs = (run.startedAt ?? run.finishedAt ?? run.createdAt).getTime();
  const tree = createTree(run.graphId);
  const asked = new Set<string>();
  let seq = beganMs * SEQ_PER_MS;
  let timeMs = beganMs;
  let error: string | undefined;

  const event = ({ method, namespace, channel = method, rest, ofRun = false }: Said): ProtocolEvent => {
    const [number, at] = [seq++, timeMs];
    // The form in which stock clients find a run's id in what the server says of it.
    const id = ofRun ? `synth:${run.runId}:${number}` : String(number);
    const text = (): string =>
      `{"type":"event","event_id":"${id}","seq":${number},"method":${JSON.stringify(method)},` +
      `"params":{"namespace":${JSON.stringify(namespace)},"timestamp":${at},${rest.slice(1)}}`;
    return { seq: number, method, channel, namespace, text };
  };
  const lifecycle = (namespace: readonly string[], data: Fields): ProtocolEvent => {
    tree.note(namespace, data);
    return event({ method: "lifecycle", namespace, rest: JSON.stringify({ data }), ofRun: namespace.length === 0 });
  };
  const requests = (namespace: readonly string[], interrupts: unknown): ProtocolEvent[] => {
    const fresh = (Array.isArray(interrupts) ? interrupts : []).flatMap((interrupt) => {
      const { id, value } = fieldsOf(interrupt) ?? {};
      if (typeof id !== "string" || asked.has(id)) return [];
      asked.add(id);
      return [{ interrupt_id: id, payload: value ?? null }];
    });
    return fresh.map((data) =>
      event({ method: "input.requested", channel: "input", namespace, rest: JSON.stringify({ data }) }),
    );
  };

  /** Lines that any run has. */
  const plain = (mode: string, namespace: readonly string[], json: string): ProtocolEvent[] => {
    switch (mode) {
      case "values":
      case "updates": {
        // Nearly always it is passed on as it is.
        if (!json.includes('"__interrupt__"')) return [event(stateSaid(mode, namespace, json))];
        const { __interrupt__, ...values } = fieldsOf(JSON.parse(json)) ?? {};
        const shown =
          Object.keys(values).length === 0 ? [] : [event(stateSaid(mode, namespace, JSON.stringify(values)))];
        return [...shown, ...requests(namespace, __interrupt__)];
      }
      case "custom":
        return [event(customSaid(namespace, json))];
      case "tasks":
        return [event({ method: "tasks", namespace, rest: `{"data":${json}}` })];
      case "tools": {
        const made = convertToProtocolEvent({ namespace: [...namespace], mode, payload: JSON.parse(json), seq: 0 });
        return made.map(({ params: { data } }) =>
          event({ method: "tools", namespace, rest: JSON.stringify({ data }) }),
        );
      }
      default:
        return [];
    }
  };
  /** Lines that only runs have which were started over the protocol. */
  const own = (method: string, namespace: readonly string[], json: string): ProtocolEvent[] => {
    switch (method) {
      case "lifecycle":
        return [lifecycle(namespace, fieldsOf((JSON.parse(json) as Fields).data) ?? {})];
      case RESULTS:
        return [event({ method: "tasks", namespace, rest: json })];
      case "custom":
        return [event(customSaid(namespace, JSON.stringify((JSON.parse(json) as Fields).data)))];
      default:
        return [event({ method, namespace, rest: json })];
    }
  };

  return {
    tree,
    begin: () => [lifecycle([], { event: "running", graph_name: run.graphId })],
    line({ event: name, json }) {
      const [mode = "", ...namespace] = name.split("|");
      if (mode === TIME_LINE) {
        timeMs = Math.max(timeMs, Number(json));
        return [];
      }
      if (mode === "error") error = messageOf(json);
      // Another attempt goes on: what the one before began to say, and nobody has stored, is not said any more.
      if (mode === "metadata")
        return isLater(json) ? [lifecycle([], { event: "running", graph_name: run.graphId })] : [];
      const method = protocolMethod(mode);
      // Runs that weren't started over the protocol don't say when their subgraphs begin.
      const begun = method === undefined ? tree.unknown(namespace).map((ns) => lifecycle(ns, tree.started(ns))) : [];
      const said = method === undefined ? plain(mode, namespace, json) : own(method, namespace, json);
      return [...begun, ...said];
    },
    end(ended, gone) {
      timeMs = Math.max(timeMs, ended.finishedAt?.getTime() ?? timeMs);
      const status = gone ? "interrupted" : statusOf(ended);
      const left = tree.open().map((ns) => lifecycle(ns, { ...tree.started(ns), event: status }));
      const why =
        status === "failed" ? { error: error ?? ended.errorPreview ?? ended.errorType ?? "The run failed" } : {};
      return [...left, lifecycle([], { event: status, graph_name: run.graphId, ...why })];
    },
  };
}

function stateSaid(mode: "values" | "updates", namespace: readonly string[], json: string): Said {
  if (mode === "values") return { method: mode, namespace, rest: `{"data":${json}}` };
  // One node's, as LangGraph streams them.
  const node = /^\{("(?:[^"\\]|\\.)*"):/.exec(json)?.[1];
  const only = node !== undefined && Object.keys(JSON.parse(json) as object).length === 1;
  if (!only) return { method: mode, namespace, rest: `{"data":{"values":${json}}}` };
  const values = json.slice(node.length + 2, -1);
  const shown = values.startsWith("{") ? values : `{"value":${values}}`;
  return { method: mode, namespace, rest: `{"node":${node},"data":{"node":${node},"values":${shown}}}` };
}

/** What a node writes may name its channel. */
function customSaid(namespace: readonly string[], json: string): Said {
  const named = json.startsWith("{") && json.includes('"name"') ? fieldsOf(JSON.parse(json)) : undefined;
  const data = named !== undefined && "name" in named ? named : undefined;
  if (data === undefined) return { method: "custom", namespace, rest: `{"data":{"payload":${json}}}` };
  const channel = inferChannel({ method: "custom", params: { namespace: [...namespace], data } }) ?? "custom";
  return { method: "custom", channel, namespace, rest: `{"data":${json}}` };
}

function statusOf({ status }: RunRow): "completed" | "failed" | "interrupted" {
  if (status === "success") return "completed";
  return status === "interrupted" ? "interrupted" : "failed";
}

function isLater(json: string): boolean {
  const { attempt, ended_by, cancel_reason } = JSON.parse(json) as Fields;
  return Number(attempt) > 1 && ended_by === undefined && cancel_reason === undefined;
}

function messageOf(json: string): string | undefined {
  const { message } = fieldsOf(JSON.parse(json)) ?? {};
  return typeof message === "string" ? message : undefined;
}
