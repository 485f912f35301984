// Answers that several routes form alike: JSON with messages flat, chosen fields, pages.
import type { Context } from "hono";
import { renderText } from "../engine/render.js";
import type { ApiEnv } from "./env.js";

/** JSON whose values may hold messages and what else a graph's state has. */
export function json(c: Context<ApiEnv>, value: unknown, status: 200 | 201 | 202 = 200): Response {
  return c.body(renderText(value), status, { "Content-Type": "application/json" });
}

/** The object with only the fields asked for; all of them when none are named. */
export function select<T extends object>(value: T, fields: readonly string[] | undefined): Partial<T> {
  if (fields === undefined) return value;
  return Object.fromEntries(Object.entries(value).filter(([key]) => fields.includes(key))) as Partial<T>;
}

/** Says how many there are in all, and where the next page starts if there is one. */
export function pageHeaders(
  c: Context<ApiEnv>,
  page: Readonly<{ offset: number; returned: number; total: number }>,
): void {
  c.header("X-Pagination-Total", String(page.total));
  const next = page.offset + page.returned;
  if (next < page.total) c.header("X-Pagination-Next", String(next));
}
