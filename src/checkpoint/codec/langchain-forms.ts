// The closed list of LangChain's and LangGraph's classes that are kept and made again; nothing else in a stored value
// ever becomes an instance. A message keeps its fields as they are now, not what its constructor was given.
import { Document } from "@langchain/core/documents";
import {
  AIMessage,
  AIMessageChunk,
  type BaseMessage,
  ChatMessage,
  ChatMessageChunk,
  FunctionMessage,
  FunctionMessageChunk,
  HumanMessage,
  HumanMessageChunk,
  RemoveMessage,
  SystemMessage,
  SystemMessageChunk,
  ToolMessage,
  ToolMessageChunk,
} from "@langchain/core/messages";
import { Command, Overwrite, Send } from "@langchain/langgraph";
import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";
import { assignAll, type Form, formOf } from "./forms.js";

type Fields = Record<string, unknown>;

const MESSAGE_MARK = Symbol.for("langchain.message");
const COMMAND_ARGS = Symbol.for("langgraph.command");

export const MESSAGE_CLASSES = [
  HumanMessage,
  HumanMessageChunk,
  AIMessage,
  AIMessageChunk,
  SystemMessage,
  SystemMessageChunk,
  ToolMessage,
  ToolMessageChunk,
  FunctionMessage,
  FunctionMessageChunk,
  ChatMessage,
  ChatMessageChunk,
  RemoveMessage,
] as unknown as readonly (Readonly<{ name: string; prototype: BaseMessage }> & (new (fields: Fields) => BaseMessage))[];

/** The same for every instance of a class, or rebuilt from the other fields. */
const CONSTANT_FIELDS = new Set(["lc_namespace", "lc_serializable", "lc_direct_tool_output", "type", "lc_kwargs"]);
/** What the constructors fill in where nothing was given; left out of the payload while they are empty. */
const EMPTY_FIELDS: Readonly<Record<string, () => object>> = {
  additional_kwargs: () => ({}),
  response_metadata: () => ({}),
  tool_calls: () => [],
  invalid_tool_calls: () => [],
  tool_call_chunks: () => [],
};
/** A payload's key for constructor arguments that are no field of the message, such as `contentBlocks`. */
const EXTRA_ARGUMENTS = "lc_kwargs";

export const LANGCHAIN_FORMS: readonly Form[] = [
  ...MESSAGE_CLASSES.map((Kind) => {
    const fieldsOfNew = Object.keys(newMessage(Kind));
    return formOf<BaseMessage, Fields>(Kind, {
      take: takeMessage,
      make: (payload) => makeMessage(newMessage(Kind), fieldsOfNew, payload),
    });
  }),
  formOf<Document, Fields>(Document, {
    take: ({ id, ...fields }) => (id === undefined ? fields : { ...fields, id }),
    make: (fields) => assignAll(new Document({ pageContent: "" }), fields),
  }),
  // Not by the constructors of Send and Command: they make instances of plain data that looks like a Send.
  formOf<Send, Fields>(Send, {
    take: ({ node, args, timeout }) => (timeout === undefined ? { node, args } : { node, args, timeout }),
    make: (fields) => Object.assign(new Send("", {}), fields),
  }),
  formOf<Command, Fields>(Command, {
    take: (command) => definedFields(command, ["graph", "update", "resume", "goto"]),
    make: (fields) => Object.assign(new Command({}), fields, { [COMMAND_ARGS]: fields }),
  }),
  formOf<Overwrite, { value: unknown }>(Overwrite, {
    take: ({ value }) => ({ value }),
    make: ({ value }) => new Overwrite(value),
  }),
  formOf<DeltaSnapshot, { value: unknown }>(DeltaSnapshot, {
    take: ({ value }) => ({ value }),
    make: ({ value }) => new DeltaSnapshot(value),
  }),
];

const FORM_BY_NAME = new Map(LANGCHAIN_FORMS.map((form) => [form.tag, form]));

/** The form of an instance that another copy of LangChain made; the graph's own node_modules may hold one. */
export function formOfOtherCopy(value: object): Form | undefined {
  const known = MESSAGE_MARK in value || "lg_name" in value || "pageContent" in value;
  const { constructor } = value;
  if (!known || typeof constructor !== "function") return undefined;
  const own = Object.hasOwn(constructor, "lc_name")
    ? (constructor as unknown as { lc_name(): string }).lc_name()
    : undefined;
  return FORM_BY_NAME.get(own ?? constructor.name);
}

export function isMessage(value: object): value is BaseMessage {
  return MESSAGE_MARK in value;
}

function newMessage<T>(Kind: new (fields: Fields) => T): T {
  return new Kind({ content: "", id: undefined });
}

/** Its fields in one order, so that equal messages have equal texts whoever built them. */
function takeMessage(message: BaseMessage): Fields {
  const fields = message as unknown as Fields;
  const isKept = (key: string) =>
    !CONSTANT_FIELDS.has(key) && !(Object.hasOwn(EMPTY_FIELDS, key) ? isEmpty(fields[key]) : fields[key] === undefined);
  const keys = Object.keys(fields).filter(isKept).sort();
  const payload: Fields = Object.fromEntries(keys.map((key) => [key, fields[key]]));
  const extra = Object.entries(message.lc_kwargs).filter(
    ([key, value]) => value !== undefined && !Object.hasOwn(fields, key),
  );
  if (extra.length > 0) payload[EXTRA_ARGUMENTS] = Object.fromEntries(extra);
  return payload;
}

function makeMessage(message: BaseMessage, fieldsOfNew: readonly string[], payload: Fields): BaseMessage {
  const { [EXTRA_ARGUMENTS]: extra, ...given } = payload;
  const fields = message as unknown as Fields;
  for (const key of fieldsOfNew) {
    if (!CONSTANT_FIELDS.has(key)) fields[key] = EMPTY_FIELDS[key]?.();
  }
  assignAll(fields, given);
  const isKept = ([key, value]: [string, unknown]) => !CONSTANT_FIELDS.has(key) && value !== undefined;
  const kwargs = Object.fromEntries(Object.entries(fields).filter(isKept));
  message.lc_kwargs = assignAll(kwargs, extra ?? {});
  return message;
}

function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0 && Object.keys(value).length === 0;
  if (typeof value !== "object" || value === null) return false;
  return Object.getPrototypeOf(value) === Object.prototype && Reflect.ownKeys(value).length === 0;
}

function definedFields(object: object, keys: readonly string[]): Fields {
  const fields = object as Fields;
  return Object.fromEntries(keys.filter((key) => fields[key] !== undefined).map((key) => [key, fields[key]]));
}
