// Requests of A2A, in the forms of 0.3 and of 1.0: fields that only one has are told apart by their names.
import { z } from "zod";
import { isObject } from "../../core/json-parts.js";
import { absent, object, uuid } from "../schemas/parts.js";
import type { Part } from "./parts.js";

const MAX_PARTS = 1_000;

const part = object.transform((given, context): Part => {
  const file = fileOf(given);
  if (typeof given["text"] === "string") return { kind: "text", text: given["text"] };
  if (file !== undefined) return file;
  if (given["data"] !== undefined) return { kind: "data", data: given["data"] };
  context.addIssue({ code: "custom", message: "must have text, data, or a file's bytes or address" });
  return z.NEVER;
});

function fileOf(given: Readonly<Record<string, unknown>>): Part | undefined {
  const old = isObject(given["file"]) ? given["file"] : {};
  const text = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);
  const url = text(old["uri"] ?? given["url"]);
  const bytes = text(old["bytes"] ?? given["raw"]);
  if (url === undefined && bytes === undefined) return undefined;
  const name = text(old["name"] ?? given["filename"]);
  const mediaType = text(old["mimeType"] ?? given["mediaType"]);
  return {
    ...{ kind: "file", ...(url === undefined ? { bytes: bytes ?? "" } : { url }) },
    ...(name !== undefined && { name }),
    ...(mediaType !== undefined && { mediaType }),
  };
}

/** Clients whose messages have every field leave those empty that they don't mean. */
const unlessEmpty = <S extends z.ZodType>(schema: S) => absent(z.literal("").transform(() => undefined)).or(schema);

const message = z.object({
  messageId: z.string().min(1).max(1_000),
  role: z.enum(["user", "ROLE_USER"], 'must be "user" (ROLE_USER in 1.0): the agent speaks for itself'),
  parts: z.array(part).min(1).max(MAX_PARTS),
  contextId: unlessEmpty(uuid),
  taskId: unlessEmpty(z.string().max(200)),
});

const historyLength = absent(z.number().int().min(0));

const configuration = z.object({
  /** 0.3; false: the task comes back as it begins. */
  blocking: absent(z.boolean()),
  /** The same in 1.0, the other way round. */
  returnImmediately: absent(z.boolean()),
  historyLength,
  pushNotificationConfig: z.unknown().optional(),
  taskPushNotificationConfig: z.unknown().optional(),
});

export const messageParams = z.object({ message, configuration: absent(configuration) });
export const taskParams = z.object({ id: z.string().max(200), historyLength });

export type MessageParams = z.output<typeof messageParams>;

/** One at a time: A2A has no batches. */
export const rpcRequest = z.object({
  jsonrpc: z.literal("2.0"),
  id: z.union([z.string(), z.number()]).nullable(),
  method: z.string(),
  params: z.unknown().optional(),
});
