// `new Client()` of the stock client without a URL, in the code of graphs and of a project's own routes: it finds a fetch under this name,
// which leads into the API of this very process, as whoever the run or the request is for.
import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import type { AuthUser, Principal } from "../core/access.js";
import type { TenantId } from "../core/ids.js";
import { linked } from "../core/linked.js";
import { shared } from "../core/shared.js";

/** Whom a call is made for: a run's user, null: nobody in particular; or who made a request. */
export type Who = Readonly<{ tenantId: TenantId; user: AuthUser | null; principal?: Principal | undefined }>;

/** The code that calls. */
export type Acting = Readonly<{
  /** Which engine of this process it belongs to. */
  home: object;
  /** Null: a request that nobody was asked about, whose calls are like anybody's. */
  who(): Who | null;
  /** Of a run: one that waits for another of its own thread would wait for ever. */
  threadId?: string;
  /** Its calls end with it. */
  signal?: AbortSignal;
  /** To be told that it only waits for another run, and by what is returned that it doesn't any more. */
  rest?: () => () => void;
}>;

/** Answers a call, made for `who`; null: like any request. */
export type Door = (request: Request, who: Who | null) => Promise<Response>;

const FETCH = Symbol.for("langgraph_api:fetch");
const within = shared("acting", () => new AsyncLocalStorage<Acting>());
const doors = shared("doors", () => new Map<object, Door>());

/** Calls made by `work`, and by whatever it starts, are its. */
export function actingAs<T>(acting: Acting, work: () => T): T {
  return within.run(acting, work);
}

/** Opens the way into an engine's API; what is returned closes it. */
export function bindLoopback(home: object, answers: Door): () => void {
  // Whoever calls is part of a run, and LangGraph would take what is done for the answer for a part of it, too.
  const door: Door = AsyncResource.bind(answers);
  doors.set(home, door);
  const global = globalThis as unknown as Record<symbol, unknown>;
  global[FETCH] = callApi;
  return () => {
    if (doors.get(home) === door) doors.delete(home);
    if (doors.size === 0) delete global[FETCH];
  };
}

/** A call that is nobody's in particular. */
export async function callHome(home: object, request: Request): Promise<Response> {
  const door = doors.get(home);
  if (door === undefined) throw new TypeError("perdure: the API of this process was closed");
  return door(request, null);
}

async function callApi(url: string | URL, init?: RequestInit): Promise<Response> {
  const acting = within.getStore();
  // Outside of any run and request it is the engine that was opened last.
  const door = (acting && doors.get(acting.home)) ?? [...doors.values()].at(-1);
  if (door === undefined) throw new TypeError("perdure: the API of this process was closed");
  const ends = [init?.signal, acting?.signal].filter((signal) => signal instanceof AbortSignal);
  const request = new Request(new URL(url, "http://localhost"), {
    ...init,
    ...(ends.length > 0 && { signal: linked(...ends).signal }),
  });
  // Whoever gives credentials means them. A key that the client found in the environment is none of those.
  const who = request.headers.has("authorization") ? null : (acting?.who() ?? null);
  if (acting?.threadId !== undefined && waitsForItself(request, acting.threadId)) {
    return new Response(`A run of thread ${acting.threadId} can't wait for another run of it`, { status: 422 });
  }
  const goOn = acting?.rest !== undefined && waitsForRun(request) ? acting.rest() : undefined;
  if (goOn === undefined) return door(request, who);
  try {
    return whenRead(await door(request, who), goOn);
  } catch (error) {
    goOn();
    throw error;
  }
}

function waitsForRun({ url, headers }: Request): boolean {
  return /\/(wait|join|stream|stream\/events)\/?$/.test(new URL(url).pathname) || headers.has("prefer");
}

function waitsForItself({ method, url }: Request, threadId: string): boolean {
  const [, thread] = /\/threads\/([^/]+)\/runs\/(?:wait|stream)\/?$/.exec(new URL(url).pathname) ?? [];
  return method === "POST" && thread?.toLowerCase() === threadId;
}

/** The same answer; `done` is called when its body has come to an end or is left. */
function whenRead({ body, status, statusText, headers }: Response, done: () => void): Response {
  if (body === null) {
    done();
    return new Response(null, { status, statusText, headers });
  }
  const reader = body.getReader();
  const read = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done: isOver, value } = await reader.read();
        if (!isOver) return controller.enqueue(value);
        done();
        controller.close();
      } catch (error) {
        done();
        controller.error(error);
      }
    },
    cancel(reason) {
      done();
      return reader.cancel(reason);
    },
  });
  return new Response(read, { status, statusText, headers });
}
