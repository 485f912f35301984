// The project's own `Auth`: who a request is of, and what that user may do. It is the project's code, so it may throw, never answer, or
// answer what means nothing: whatever it does, nobody gets further by it than it says.
import { HTTPException } from "hono/http-exception";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { AccessEvent, AuthModule, AuthUser, Within } from "../../core/access.js";
import { MAX_IDENTITY, withinOf } from "../../core/access.js";
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import { isObject } from "../../core/json-parts.js";
import { isOwn, namesOf, resourceOf } from "../../core/scopes.js";
import { stackFrames } from "../../observe/frames.js";
import { forbidden, unauthorized } from "./refusal.js";

const PATIENCE_MS = 10_000;
/** It goes along with each run. */
const MAX_USER_CHARACTERS = 65_536;

export type Handlers = Readonly<{
  /** Null: it says who nobody is. */
  authenticate: ((request: Request) => Promise<AuthUser>) | null;
  /** Rejects with what the handler of the event says, 403 unless it says otherwise; `value` is as it left it. */
  authorize(user: AuthUser, event: AccessEvent, value: Readonly<Record<string, unknown>>): Promise<Within>;
}>;

export function createHandlers({ clock, log }: Pick<Deps, "clock" | "log">, module: AuthModule): Handlers {
  const { authenticate } = module["~handlerCache"];

  /** What is made of its answer, in time. */
  const call = async <T>(handler: string, work: () => unknown, read: (said: unknown) => T): Promise<T> => {
    const patience = new AbortController();
    const late = clock.sleep(PATIENCE_MS, patience.signal).then(() => {
      if (!patience.signal.aborted) throw new EngineError("unavailable", "Authentication doesn't answer; try again");
    });
    try {
      return read(await Promise.race([Promise.resolve().then(work), late]));
    } catch (error) {
      throw refusalOf(error) ?? failed(handler, error);
    } finally {
      patience.abort();
    }
  };
  const failed = (handler: string, error: unknown): EngineError => {
    const isLate = error instanceof EngineError && error.code === "unavailable";
    const reason = error instanceof Unclear || isLate ? error.message : undefined;
    const name = error instanceof Error ? error.name : typeof error;
    log.error({ handler, error: name, reason, frames: stackFrames(error) }, "a handler of auth.path failed");
    if (isLate) return error;
    return new EngineError("internal", "Authentication failed on the server's side; its log says why", {
      cause: error,
    });
  };

  return {
    authenticate:
      authenticate === undefined
        ? null
        : ({ url, method, headers }) =>
            // Without the body, which is the route's to read.
            call("authenticate", () => authenticate(new Request(url, { method, headers })), userOf),

    authorize(user, event, value) {
      const { callbacks = {} } = module["~handlerCache"];
      const isForOperators = isOwn(event);
      const names = isForOperators ? [event, resourceOf(event)] : namesOf(event);
      const name = names.find((candidate) => Object.hasOwn(callbacks, candidate));
      const handler = name === undefined ? undefined : callbacks[name];
      if (handler === undefined) {
        if (isForOperators) return Promise.reject(forOperators(event));
        return Promise.resolve(null);
      }
      const [resource, action] = event.split(":");
      const { permissions } = user;
      const asked = { event, resource, action, value, user, permissions };
      return call(
        event,
        () => handler(asked as never),
        (said) => withinSaid(said, isForOperators),
      );
    },
  };
}

/** What belongs to no thread is nobody's but the operators', unless something names it. */
export function forOperators(event: AccessEvent): HTTPException {
  return forbidden(`Not authorized: ${event} is for operators`);
}

/** An answer that means nothing. Its message is ours, and may be logged. */
class Unclear extends TypeError {}

function withinSaid(said: unknown, isForOperators: boolean): Within {
  if (said === undefined || said === null || said === true) return null;
  if (said === false) throw forbidden("Not authorized");
  if (!isObject(said)) throw new Unclear("it must give back nothing, true, false or a filter");
  if (isForOperators) throw new Unclear("what belongs to no thread takes no filter: give back true or false");
  try {
    return withinOf(said);
  } catch (error) {
    throw new Unclear((error as Error).message);
  }
}

/** An exception of the stock `Auth`, or one like it: it says its status itself. */
function refusalOf(error: unknown): HTTPException | undefined {
  if (!(error instanceof Error) || error instanceof EngineError) return undefined;
  const { status, headers } = error as Error & { status?: unknown; headers?: unknown };
  if (!Number.isInteger(status) || (status as number) < 400 || (status as number) > 599) return undefined;
  const res = isObject(headers) ? new Response(null, { headers: headers as Record<string, string> }) : undefined;
  return new HTTPException(status as ContentfulStatusCode, {
    message: error.message,
    cause: error,
    ...(res !== undefined && { res }),
  });
}

function userOf(said: unknown): AuthUser {
  const given = typeof said === "string" ? { identity: said } : said;
  if (!isObject(given)) throw new Unclear("it must give back an identity, or an object with one");
  const { identity, permissions = [], display_name: name, is_authenticated: isAuthenticated = true } = given;
  if (isAuthenticated === false) throw unauthorized("Not authenticated");
  if (typeof identity !== "string" || identity === "" || identity.length > MAX_IDENTITY) {
    throw new Unclear(`identity must be text of 1 to ${MAX_IDENTITY} characters`);
  }
  const listed = Array.isArray(permissions) ? permissions.filter((each) => typeof each === "string") : [];
  const shown = { display_name: typeof name === "string" ? name : identity, is_authenticated: true };
  // As runs will have it: as JSON.
  const json = JSON.stringify({ ...given, ...shown, identity, permissions: listed });
  if (json.length > MAX_USER_CHARACTERS)
    throw new Unclear(`a user has at most ${MAX_USER_CHARACTERS} characters as JSON`);
  return JSON.parse(json) as AuthUser;
}
