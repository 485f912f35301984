// What A2A says of what can't be done.
import { type EngineError, isEngineError } from "../../core/errors.js";
import { statusOf } from "../http-errors.js";
import { RPC, rpcError, type RpcId } from "../json-rpc.js";

const CODES = {
  ...RPC,
  task_not_found: -32001,
  not_cancelable: -32002,
  no_push: -32003,
  unsupported: -32004,
  content: -32005,
  version: -32009,
} as const;

/** A refusal in A2A's own terms. */
export class A2aError extends Error {
  constructor(
    readonly kind: keyof typeof CODES,
    message: string,
  ) {
    super(message);
  }
}

export function taskNotFound(id: string): A2aError {
  return new A2aError("task_not_found", `There is no task ${JSON.stringify(id)} of this agent`);
}

/** The answer to who asked for what can't be done; undefined where HTTP says it: who may, and what is out of order here. */
export function refusal(id: RpcId, error: unknown) {
  if (error instanceof A2aError) return rpcError(id, CODES[error.kind], error.message);
  if (!isEngineError(error) || isOfHttp(error)) return undefined;
  return rpcError(id, error.code === "expired" ? CODES.task_not_found : CODES.params, error.message);
}

function isOfHttp(error: EngineError): boolean {
  return error.code === "forbidden" || statusOf(error) >= 500;
}
