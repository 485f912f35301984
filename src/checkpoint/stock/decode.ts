// What LangGraph's JsonPlusSerializer wrote, as values. It makes an instance of whatever class of LangChain's a stored
// object names; here only messages are made, and the containers it has records for. Anything else that is shaped like such a
// record, whoever wrote it, stays the data it is.
import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";
import { EngineError } from "../../core/errors.js";
import { type PathStep, pathText, unsupported } from "../codec/unsupported.js";
import { messageOfKwargs } from "./message.js";

/** An object that the stock saver would have made an instance of. */
export type Foreign = Readonly<{ path: string; className: string }>;

type Json = { [key: string]: unknown };
type Reading = {
  readonly path: PathStep[];
  readonly foreign: Foreign[];
  /** How many messages stand around the value, and how much of it is user data that was marked as such. */
  inMessage: number;
  inData: number;
};

const MAX_DEPTH = 1_000;
const ESCAPED = "__lc_escaped__";

/**
 * The value of a blob. `foreign` gets what was kept as data although the stock saver would have made an instance of it.
 * Throws `value_unsupported` naming the path, which starts with `name`, for types of other serializers and endless depth.
 */
export function decodeStock(type: string | null, blob: Buffer | null, name: string, foreign: Foreign[]): unknown {
  if (type === "bytes" && blob !== null) return blob;
  if (type !== "json" || blob === null) {
    throw new EngineError(
      "value_unsupported",
      `The stored value of ${name} is of type ${JSON.stringify(type)}, which LangGraph.js doesn't write.`,
    );
  }
  let json: unknown;
  try {
    json = JSON.parse(blob.toString("utf8"));
  } catch (cause) {
    throw new EngineError("value_unsupported", `The stored value of ${name} isn't readable JSON.`, { cause });
  }
  return revive({ path: [name], foreign, inMessage: 0, inData: 0 }, json);
}

function revive(r: Reading, value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (r.path.length > MAX_DEPTH) throw unsupported(r.path.slice(0, 20), `nested more than ${MAX_DEPTH} deep`);
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const item = reviveUnder(r, i, value[i]);
      // As JSON.stringify has it, which stands between a record in a message and the message.
      value[i] = item === undefined && r.inMessage > 0 ? null : item;
    }
    return value;
  }
  const json = value as Json;
  if (r.inMessage > 0 && r.inData === 0 && isEscaped(json)) return reviveData(r, json[ESCAPED]);
  const isMessage = r.inData === 0 && isConstructor(json, 1);
  if (isMessage) r.inMessage += 1;
  for (const key of Object.keys(json)) {
    const inner = reviveUnder(r, key, json[key]);
    if (inner === undefined && r.inMessage > 0) delete json[key];
    else json[key] = inner;
  }
  if (isMessage) r.inMessage -= 1;
  return ofRecord(r, json);
}

function reviveUnder(r: Reading, key: PathStep, value: unknown): unknown {
  r.path.push(key);
  const revived = revive(r, value);
  r.path.pop();
  return revived;
}

/** Only `undefined` is written in such data as it is elsewhere. */
function reviveData(r: Reading, value: unknown): unknown {
  r.inData += 1;
  const revived = revive(r, value);
  r.inData -= 1;
  return revived;
}

/** User data in a message that might be taken for a record. */
function isEscaped(json: Json): boolean {
  return ESCAPED in json && Object.keys(json).length === 1;
}

function isConstructor(json: Json, lc: 1 | 2): boolean {
  return json["lc"] === lc && json["type"] === "constructor" && Array.isArray(json["id"]);
}

function ofRecord(r: Reading, json: Json): unknown {
  if (json["lc"] === 2 && json["type"] === "undefined") return undefined;
  if (r.inData > 0) return json;
  if (json["lc"] === 2) {
    if (json["type"] === "delta_snapshot" && Object.hasOwn(json, "value")) return new DeltaSnapshot(json["value"]);
    return isConstructor(json, 2) ? (container(json) ?? json) : json;
  }
  if (!isConstructor(json, 1)) return json;
  const message = messageOfKwargs(json["id"] as unknown[], json["kwargs"]);
  if (message !== undefined) return message;
  const className = (json["id"] as unknown[]).map(String).join(".").slice(0, 120);
  r.foreign.push({ path: pathText(r.path), className });
  return json;
}

/** By the stock rules: what doesn't look exactly so is data. */
function container(json: Json): unknown {
  const [name, ...more] = json["id"] as unknown[];
  const method = json["method"] ?? null;
  const args = json["args"];
  if (more.length > 0 || !Array.isArray(args) || (method !== null && !(name === "Uint8Array" && method === "from"))) {
    return undefined;
  }
  const [first, second] = args as unknown[];
  if (name === "RegExp") return args.length === 2 ? regExp(first, second) : undefined;
  if (args.length !== 1) return undefined;
  if (name === "Error") return typeof first === "string" ? errorOf(first) : undefined;
  if (!Array.isArray(first)) return undefined;
  if (name === "Set") return new Set(first);
  if (name === "Map") return first.every(isPair) ? new Map(first as [unknown, unknown][]) : undefined;
  if (name === "Uint8Array") return first.every(isByte) ? new Uint8Array(first as number[]) : undefined;
  return undefined;
}

function regExp(source: unknown, flags: unknown): RegExp | undefined {
  if (typeof source !== "string" || typeof flags !== "string") return undefined;
  try {
    return new RegExp(source, flags);
  } catch {
    return undefined;
  }
}

/** Its stack was not stored; that of this reader is nobody's. */
function errorOf(message: string): Error {
  const error = new Error(message);
  Reflect.deleteProperty(error, "stack");
  return error;
}

const isPair = (entry: unknown): boolean => Array.isArray(entry) && entry.length === 2;
const isByte = (item: unknown): boolean => Number.isInteger(item) && (item as number) >= 0 && (item as number) <= 255;
