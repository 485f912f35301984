// The API's description (OpenAPI 3.1), made of the operations and the schemas that their requests are read with.
import { z } from "zod";
import { isObject } from "../../core/json-parts.js";
import { formOf } from "../request.js";
import { ASSISTANTS, CRONS, PROTOCOLS, RUNS, STORE, SYSTEM, THREADS } from "./agent-server.js";
import type { Answer, Operation, Operations } from "./operation.js";
import { CHANNELS, OPERATIONS_OF_RUNS, OUTREACH, WIDGET } from "./perdure.js";

type Json = Readonly<Record<string, unknown>>;

/** By the group they are shown in. */
const GROUPS: Readonly<Record<string, Operations>> = {
  Assistants: ASSISTANTS,
  Threads: THREADS,
  Runs: RUNS,
  Crons: CRONS,
  Store: STORE,
  "Runs: records, questions, effects, budgets": OPERATIONS_OF_RUNS,
  "Channels and deliveries": CHANNELS,
  "Follow-ups, schedules and contacts": OUTREACH,
  Widget: WIDGET,
  "MCP and A2A": PROTOCOLS,
  System: SYSTEM,
};

export const OPERATIONS: Operations = Object.assign({}, ...Object.values(GROUPS)) as Operations;

const CONTENT: Readonly<Record<Answer, string | null>> = {
  json: "application/json",
  events: "text/event-stream",
  nothing: null,
  text: "text/plain",
  html: "text/html",
  script: "text/javascript",
  socket: null,
};
const STATUS: Readonly<Partial<Record<Answer, number>>> = { nothing: 204, socket: 101 };

/** The whole description. `version` is the server's. */
export function openApiDocument(version: string): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const [tag, operations] of Object.entries(GROUPS)) {
    for (const [key, operation] of Object.entries(operations)) {
      const [method = "", route = ""] = key.split(" ");
      for (const path of pathsOf(route)) {
        paths[path] = { ...paths[path], [method.toLowerCase()]: describe(path, method, operation, tag) };
      }
    }
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "perdure",
      version,
      description: "A durable run engine behind the LangGraph Agent Server API; what is under /v1 is its own.",
    },
    tags: Object.keys(GROUPS).map((name) => ({ name })),
    paths,
    components: { schemas: { Error: ERROR } },
  };
}

/** `/a/:b/:c?` is two: with what may be left out, and without. */
function pathsOf(route: string): string[] {
  const whole = route.replaceAll(/:(\w+)\??/g, "{$1}");
  return route.endsWith("?") ? [whole.slice(0, whole.lastIndexOf("/")), whole] : [whole];
}

const ERROR: Json = {
  type: "object",
  description: "With Accept: application/json; otherwise the message alone, as text.",
  properties: {
    detail: { type: "string" },
    code: { type: "string" },
    details: { type: "object" },
  },
  required: ["detail", "code"],
};
const REFUSED: Json = {
  description: "Refused, or not there: why stands in the message.",
  content: {
    "text/plain": { schema: { type: "string" } },
    "application/json": { schema: { $ref: "#/components/schemas/Error" } },
  },
};

function describe(path: string, method: string, operation: Operation, tag: string): Json {
  const content = CONTENT[operation.answer];
  const body = bodyOf(operation);
  return {
    tags: [tag],
    summary: operation.summary,
    operationId: `${method.toLowerCase()}${path.replaceAll(/[^A-Za-z0-9]+/g, "_").replace(/_$/, "")}`,
    parameters: [...pathParameters(path), ...queryParameters(operation.query)],
    ...(body !== undefined && { requestBody: { content: { "application/json": { schema: body } } } }),
    responses: {
      [STATUS[operation.answer] ?? 200]: {
        description: "Done",
        ...(content !== null && { content: { [content]: { schema: operation.answer === "json" ? {} : TEXT } } }),
      },
      "4XX": REFUSED,
    },
  };
}

const TEXT: Json = { type: "string" };

function bodyOf({ body, bodies }: Operation): Json | undefined {
  if (bodies !== undefined) return { type: "array", items: schemaOf(bodies) };
  return body && schemaOf(body);
}

/** What a request's part may be; what is checked beyond its shape is said by the answer to who tries. */
function schemaOf(schema: z.ZodType): Json {
  const { $schema: _dialect, ...json } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  return json;
}

/** Assistants go by a graph's name, too. */
const BY_NAME = /^(assistant_id|graph_id|ref_id)$/;

function pathParameters(path: string): Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => ({
    ...{ name, in: "path", required: true },
    schema: name.endsWith("_id") && !BY_NAME.test(name) ? { type: "string", format: "uuid" } : TEXT,
  }));
}

function queryParameters(query: z.ZodObject | undefined): Json[] {
  const fields = Object.entries(query?.shape ?? {});
  return fields.map(([name, field]) => ({ name, in: "query", required: isNeeded(field), schema: fieldSchema(field) }));
}

function isNeeded(field: z.ZodType): boolean {
  return !field.safeParse(undefined).success;
}

/** A field of a query arrives as a list of texts; what it means is said by the reader at its beginning, and narrowed by what comes after it. */
function fieldSchema(field: z.ZodType): Json {
  const known = formOf(field);
  if (known !== undefined) return known;
  if (field instanceof z.ZodPipe) {
    const first = field.def.in as z.ZodType;
    const out = field.def.out as z.ZodType;
    const from = formOf(first);
    const to = out instanceof z.ZodTransform ? {} : schemaOf(out);
    if (from !== undefined && Object.keys(to).length > 0) return to;
    return from ?? (first instanceof z.ZodPipe ? fieldSchema(first) : TEXT);
  }
  const options = field instanceof z.ZodUnion ? (field.def.options as readonly z.ZodType[]) : [];
  return options.map(formOf).find(isObject) ?? TEXT;
}
