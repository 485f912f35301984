import { afterAll, beforeAll, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { dumpSchema } from "../helpers/schema-dump.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.close());

it("schema.sql shows what the migrations make, on every Postgres version", async () => {
  await expect(await dumpSchema(database.db)).toMatchFileSnapshot("../schema.sql");
});
