// Filters and scopes, as functions of what is written.
import { describe, expect, it } from "vitest";
import { both, reaches, withinOf } from "../../src/core/access.js";
import { readKey } from "../../src/core/api-key.js";
import { isOwn, mayDo, scopeProblem } from "../../src/core/scopes.js";

describe("a filter", () => {
  it.each([
    [{ owner: "a" }, { owner: "a" }],
    [{ owner: { $eq: "a" } }, { owner: "a" }],
    [{ readers: { $contains: "a" } }, { readers: ["a"] }],
    [{ readers: { $contains: ["a", "b"] } }, { readers: ["a", "b"] }],
    [
      { level: 3, open: true, of: null },
      { level: 3, open: true, of: null },
    ],
    [{}, null],
  ])("%j is what metadata must contain", (filter, within) => {
    expect(withinOf(filter)).toEqual(within);
  });

  it.each([
    { owner: undefined },
    { owner: { $ne: "a" } },
    { owner: { $eq: "a", $contains: "b" } },
    { owner: {} },
    { owner: { $eq: undefined } },
    { owner: { $eq: ["a"] } },
    { owner: ["a"] },
    { owner: Number.NaN },
    { owner: { $contains: [undefined] } },
    { owner: () => "a" },
  ])("%j means nothing, and is not taken for one that lets through more", (filter) => {
    expect(() => withinOf(filter)).toThrow(/must be a plain value/);
  });

  it("reaches what has it and nothing else", () => {
    expect(reaches({ owner: "a" }, { owner: "a", more: 1 })).toBe(true);
    for (const metadata of [{}, { owner: ["a"] }, { owner: "ab" }, undefined, null, [], "a"]) {
      expect(reaches({ owner: "a" }, metadata)).toBe(false);
    }
    expect(reaches({ readers: ["a"] }, { readers: "a" })).toBe(false);
    expect(reaches(null, undefined)).toBe(true);
  });

  it("and another hold both, or nothing does", () => {
    expect(both({ a: 1 }, { b: 2 })).toEqual({ a: 1, b: 2 });
    expect(both({ a: 1 }, { a: 1 })).toEqual({ a: 1 });
    expect(both({ a: 1 }, { a: 2 })).toBeUndefined();
    expect([both(null, { a: 1 }), both(null, null)]).toEqual([{ a: 1 }, null]);
  });
});

describe("a scope", () => {
  it.each(["*", "threads", "threads:create_run", "store:list_namespaces", "*:read", "budgets:update"])(
    "%s is one",
    (scope) => {
      expect(scopeProblem(scope)).toBeUndefined();
    },
  );

  it.each(["", "thread", "threads:", "threads:put", "threads:read:more", "*:*", ":read"])("%s is none", (scope) => {
    expect(scopeProblem(scope)).toMatch(/is no scope/);
  });

  it("opens its event, its resource's, its action's, or everything", () => {
    const may = (scope: string) => mayDo([scope], "threads:read");
    expect(["threads:read", "threads", "*:read", "*"].map(may)).toEqual([true, true, true, true]);
    expect(["threads:create", "assistants", "*:create", "thread"].map(may)).toEqual([false, false, false, false]);
    expect([isOwn("budgets:read"), isOwn("threads:read")]).toEqual([true, false]);
  });
});

it("a key's text says where to look, and nothing else is one", () => {
  const text = `pdk_acme-1.${"A".repeat(22)}.${"b".repeat(43)}`;
  expect(readKey(text)).toMatchObject({ tenantId: "acme-1", apiKeyId: "00000000-0000-0000-0000-000000000000" });
  for (const other of ["", "pdk_", text.slice(1), `${text}x`, text.replace("acme", "Acme"), `${text}\n`]) {
    expect(readKey(other)).toBeUndefined();
  }
});
