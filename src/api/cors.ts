// Which pages may call: any, unless langgraph.json says which (`http.cors`).
import type { MiddlewareHandler } from "hono";
import { cors } from "hono/cors";
import type { Cors, CorsRules } from "../engine/http-json.js";
import { REPLAYED_HEADER } from "./idempotency.js";
import { IGNORED_FIELDS_HEADER } from "./request.js";

/** What stock clients read of an answer, and what is ours. */
const EXPOSED_HEADERS = [
  "content-location",
  "location",
  "x-pagination-total",
  "x-pagination-next",
  "x-request-id",
  IGNORED_FIELDS_HEADER.toLowerCase(),
  REPLAYED_HEADER.toLowerCase(),
  "preference-applied",
];

export function corsOf(rules: Cors): MiddlewareHandler {
  if (rules === "unsaid") return (_c, next) => next();
  // Browsers ask for what they need; allowing what they ask for covers every x- header.
  if (rules === "any") return cors({ origin: "*", exposeHeaders: EXPOSED_HEADERS });
  const { methods, headers, credentials, maxAgeSeconds } = rules;
  return cors({
    origin: allowedOrigin(rules),
    exposeHeaders: [...new Set([...EXPOSED_HEADERS, ...rules.expose.map((name) => name.toLowerCase())])],
    credentials,
    ...(methods && { allowMethods: [...methods] }),
    ...(headers && { allowHeaders: [...headers] }),
    ...(maxAgeSeconds !== null && { maxAge: maxAgeSeconds }),
  });
}

/** A page that sends credentials must be named: browsers refuse `*` then. */
function allowedOrigin({
  origins,
  originPattern,
  credentials,
}: CorsRules): string | ((origin: string) => string | null) {
  const any = origins.includes("*");
  if (any && !credentials) return "*";
  return (origin) => (any || origins.includes(origin) || originPattern?.test(origin) === true ? origin : null);
}
