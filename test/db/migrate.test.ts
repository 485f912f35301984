import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { checkSchema, migrate, readMigrations } from "../../src/db/migrate.js";
import { openDb } from "../../src/db/pool.js";
import { createLog } from "../../src/observe/log.js";
import { createEmptyDatabase, type TestDatabase } from "../helpers/database.js";
import { runProcess } from "../helpers/processes.js";

const log = createLog("silent");
let database: TestDatabase;
beforeEach(async () => {
  database = await createEmptyDatabase();
});
afterEach(() => database.close());

const newer = (breaking: boolean) =>
  database.db.query("insert into migrations (version, name, breaking) values (9999, 'from_the_future', $1)", [
    breaking,
  ]);

describe("migrating", () => {
  it("makes everything once, and nothing the next time", async () => {
    const names = (await readMigrations()).map(({ version, name }) => `${String(version).padStart(4, "0")}_${name}`);
    expect(await migrate(database.db)).toEqual(names);
    expect(await migrate(database.db)).toEqual([]);
    await checkSchema(database.db);
  });

  it("in ten processes at once happens in one of them", async () => {
    const env = { DATABASE_URL: database.url };
    const all = await Promise.all(Array.from({ length: 10 }, () => runProcess(["migrate", "--json"], { env })));
    expect(all.map(({ code, output }) => (code === 0 ? 0 : output))).toEqual(Array(10).fill(0));
    const applied = all.map(({ stdout }) => (JSON.parse(stdout) as { applied: string[] }).applied.length);
    expect(applied.filter((n) => n > 0)).toEqual([(await readMigrations()).length]);
    await checkSchema(database.db);
  });

  it("runs what others set up under the same lock, each time, and keeps nothing when that fails", async () => {
    let inside = 0;
    const afterwards = async (): Promise<void> => {
      expect(++inside).toBe(1);
      await new Promise((resolve) => setImmediate(resolve));
      inside--;
    };
    const failing = migrate(database.db, { afterwards: () => Promise.reject(new Error("no room")) });
    await expect(failing).rejects.toThrow("no room");
    await expect(checkSchema(database.db)).rejects.toMatchObject({ code: "config_invalid" });
    await Promise.all([migrate(database.db, { afterwards }), migrate(database.db, { afterwards })]);
  });
});

describe("a process that serves", () => {
  it("refuses a database that lacks migrations and says what to run", async () => {
    await expect(checkSchema(database.db)).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringMatching(/lacks the migrations 0001_\w+, .*perdure migrate/),
    });
  });

  it("refuses a database with a newer breaking migration, naming both versions and both ways out", async () => {
    await migrate(database.db);
    await newer(true);
    const refusal = {
      code: "schema_newer",
      message: expect.stringMatching(
        /9999_from_the_future.*made for \d{4}_\w+.*install the perdure.*point DATABASE_URL/,
      ),
    };
    await expect(checkSchema(database.db)).rejects.toMatchObject(refusal);
    await expect(migrate(database.db)).rejects.toMatchObject(refusal);
  });

  it("works with a newer migration that breaks nothing", async () => {
    await migrate(database.db);
    await newer(false);
    await checkSchema(database.db);
    expect(await migrate(database.db)).toEqual([]);
  });

  it("says that the database can't be reached, when that is so", async () => {
    const nobody = openDb({ url: "postgres://x@127.0.0.1:1/x", max: 1, log, applicationName: "nobody" });
    await expect(checkSchema(nobody)).rejects.toMatchObject({ code: "unavailable" });
    await nobody.close();
  });
});
