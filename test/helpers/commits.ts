// A test's hand on the group commit: slows it down or makes it fail, and leaves every other statement alone.
import type { Db } from "../../src/core/deps.js";

/** From now on `before` is awaited ahead of each commit of checkpoints and writes; what it throws, the commit fails with. */
export function beforeCommits(db: Db, before: () => Promise<void> | void): void {
  const { query } = db;
  const held: Db["query"] = async (text, values) => {
    if (text.includes("insert into checkpoint_writes")) await before();
    return query(text, values);
  };
  Object.assign(db, { query: held });
}
