import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";

describe("a test database", () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.close());
  it("has the schema", async () => {
    expect((await database.db.query("select tenant_id from tenants")).rows).toEqual([{ tenant_id: "default" }]);
  });
});
