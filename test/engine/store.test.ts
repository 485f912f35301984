// The store graphs get: it survives what happens to its connections.
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/compose.js";
import { DEFAULT_TENANT } from "../../src/core/ids.js";
import { openStore, setupStore } from "../../src/engine/store.js";
import { createLog } from "../../src/observe/log.js";
import { createTestDatabase } from "../helpers/database.js";
import { startProxy } from "../helpers/proxy.js";

describe("the store", () => {
  it("goes on when Postgres closes its connections or is away for a moment", async () => {
    const database = await createTestDatabase();
    const proxy = await startProxy(database.url);
    const url = new URL(database.url);
    url.port = String(proxy.port);
    const log = createLog("silent");
    const options = { sql: database.db, log, clock: systemClock, random: Math.random, ttl: null, index: null };
    const { of, close } = openStore(url.href, options);
    const store = of(DEFAULT_TENANT);
    await store.batch([{ namespace: ["people"], key: "dora", value: { likes: "tea" } }]);
    await database.db.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'perdure store' and datname = current_database()`,
    );
    const get = { namespace: ["people"], key: "dora" };
    expect(await store.batch([get])).toMatchObject([{ value: { likes: "tea" } }]);

    proxy.faults.refusing = true;
    proxy.cut();
    const asked = store.batch([get]);
    setTimeout(() => (proxy.faults.refusing = false), 500);
    expect(await asked).toMatchObject([{ value: { likes: "tea" } }]);
    await close();
    await proxy.close();
    await database.close();
  });

  it("is set up any number of times", async () => {
    const database = await createTestDatabase();
    await setupStore(database.url, database.db);
    await setupStore(database.url, database.db);
    await database.close();
  });
});
