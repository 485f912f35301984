// What an object store must be able to do, asked with one small object: create once, read, range, list, delete.
import { randomUUID } from "node:crypto";
import type { BodyStore } from "../core/deps.js";
import { EngineError, isEngineError } from "../core/errors.js";

const FIRST = Buffer.from("perdure probe");
const SECOND = Buffer.from("perdure probe, written over");

type ProbedStore = Pick<BodyStore, "uri" | "create" | "read" | "delete" | "list">;

/** Throws `unavailable` or `config_invalid` saying what the store can't do. Leaves nothing behind. */
export async function probeStore(store: ProbedStore): Promise<readonly string[]> {
  const key = `probe/${randomUUID()}`;
  const other = `probe/${randomUUID()}`;
  const refuse = (what: string) =>
    new EngineError("config_invalid", `${store.uri} can't hold bodies: ${what}`, { details: { uri: store.uri } });
  try {
    if (!(await store.create(key, FIRST))) throw refuse("a new object was reported as existing already");
    if (!FIRST.equals(await store.read(key))) throw refuse("an object reads back changed");
    if ((await store.create(key, SECOND)) || !FIRST.equals(await store.read(key))) {
      throw refuse("it overwrites an object that exists (If-None-Match: * is not obeyed)");
    }
    if (!FIRST.subarray(2, 5).equals(await store.read(key, { start: 2, end: 5 })))
      throw refuse("ranges are not obeyed");
    const listed: string[] = [];
    for await (const found of store.list(key)) listed.push(found);
    if (!listed.includes(key)) throw refuse("a new object is not listed");
  } catch (error) {
    // What failed first is what to report.
    await store.delete([key, other]).catch(() => {});
    throw error;
  }
  // Two, since servers differ in what they want with a batch.
  await store.create(other, SECOND);
  await store.delete([key, other]);
  const gone = await store.read(key).then(
    () => false,
    (error: unknown) => isEngineError(error, "body_missing") || Promise.reject(error),
  );
  if (!gone) throw refuse("a deleted object is still read");
  return [];
}
