// A task as it is told, in both forms that clients read: 0.3, whose parts say what kind they are, and 1.0, whose fields do.
import type { Part } from "./parts.js";

export type TaskState = "submitted" | "working" | "input-required" | "completed" | "canceled" | "failed";

export type TaskMessage = Readonly<{ messageId: string; role: "user" | "agent"; parts: readonly Part[] }>;
export type TaskStatus = Readonly<{ state: TaskState; message?: TaskMessage; timestamp: string }>;
export type Artifact = Readonly<{ artifactId: string; parts: readonly Part[] }>;

export type Task = Readonly<{
  id: string;
  contextId: string;
  status: TaskStatus;
  artifacts: readonly Artifact[];
  history: readonly TaskMessage[];
  metadata: Readonly<Record<string, unknown>>;
}>;

export type TaskEvent =
  | Readonly<{ kind: "task"; task: Task }>
  | Readonly<{ kind: "status"; status: TaskStatus; final: boolean }>
  | Readonly<{ kind: "artifact"; artifact: Artifact; append: boolean; lastChunk: boolean }>;

type Json = Readonly<Record<string, unknown>>;
type Ids = Pick<Task, "id" | "contextId">;

export type Wire = Readonly<{
  task(task: Task): Json;
  /** As sending a message answers with it. */
  sent(task: Task): Json;
  event(ids: Ids, event: TaskEvent): Json;
}>;

type Forms = Readonly<{
  /** What something is, where that is said. */
  kind(name: string): Json;
  part(part: Part): Json;
  state(state: TaskState): string;
  role(role: TaskMessage["role"]): string;
}>;

const OLD: Forms = {
  kind: (kind) => ({ kind }),
  part(part) {
    if (part.kind === "text") return { kind: "text", text: part.text };
    if (part.kind === "data") return { kind: "data", data: part.data };
    const { url, bytes, name, mediaType } = part;
    return { kind: "file", file: { ...(url === undefined ? { bytes } : { uri: url }), name, mimeType: mediaType } };
  },
  state: (state) => state,
  role: (role) => role,
};

const NEW: Forms = {
  kind: () => ({}),
  part(part) {
    if (part.kind === "text") return { text: part.text };
    if (part.kind === "data") return { data: part.data };
    const { url, bytes, name, mediaType } = part;
    return { ...(url === undefined ? { raw: bytes } : { url }), filename: name, mediaType };
  },
  state: (state) => `TASK_STATE_${state.toUpperCase().replace("-", "_")}`,
  role: (role) => `ROLE_${role.toUpperCase()}`,
};

function messageJson(forms: Forms, { id, contextId }: Ids, { messageId, role, parts }: TaskMessage): Json {
  return {
    ...forms.kind("message"),
    ...{ messageId, contextId, taskId: id, role: forms.role(role), parts: parts.map(forms.part) },
  };
}

function statusJson(forms: Forms, ids: Ids, { state, message, timestamp }: TaskStatus): Json {
  return {
    state: forms.state(state),
    ...(message !== undefined && { message: messageJson(forms, ids, message) }),
    timestamp,
  };
}

function artifactJson(forms: Forms, { artifactId, parts }: Artifact): Json {
  return { artifactId, parts: parts.map(forms.part) };
}

function taskJson(forms: Forms, task: Task): Json {
  const { id, contextId, metadata } = task;
  return {
    ...forms.kind("task"),
    ...{ id, contextId, status: statusJson(forms, task, task.status) },
    artifacts: task.artifacts.map((artifact) => artifactJson(forms, artifact)),
    history: task.history.map((message) => messageJson(forms, task, message)),
    metadata,
  };
}

/** Of 0.3. */
export const WIRE_0: Wire = {
  task: (task) => taskJson(OLD, task),
  sent: (task) => taskJson(OLD, task),
  event(ids, event) {
    const of = { taskId: ids.id, contextId: ids.contextId };
    switch (event.kind) {
      case "task":
        return taskJson(OLD, event.task);
      case "status":
        return { kind: "status-update", ...of, status: statusJson(OLD, ids, event.status), final: event.final };
      case "artifact": {
        const { append, lastChunk } = event;
        return { kind: "artifact-update", ...of, artifact: artifactJson(OLD, event.artifact), append, lastChunk };
      }
    }
  },
};

/** Of 1.0. */
export const WIRE_1: Wire = {
  task: (task) => taskJson(NEW, task),
  sent: (task) => ({ task: taskJson(NEW, task) }),
  event(ids, event) {
    const of = { taskId: ids.id, contextId: ids.contextId };
    switch (event.kind) {
      case "task":
        return { task: taskJson(NEW, event.task) };
      case "status":
        return { statusUpdate: { ...of, status: statusJson(NEW, ids, event.status) } };
      case "artifact": {
        const { append, lastChunk } = event;
        return { artifactUpdate: { ...of, artifact: artifactJson(NEW, event.artifact), append, lastChunk } };
      }
    }
  },
};
