// Once per run: a Postgres server (TEST_DATABASE_URL, else the embedded one in a folder of its own), the template
// database, and an S3 server where one can be had. Everything started here is stopped at the end.
import type { TestProject } from "vitest/node";
import { ensureTemplate } from "./database.js";
import { startTestServer } from "./postgres.js";
import { type S3Server, startS3 } from "./s3.js";

declare module "vitest" {
  export interface ProvidedContext {
    /** The server's maintenance database. */
    databaseUrl: string;
    templateDatabase: string;
    s3: S3Server | null;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startTestServer();
  try {
    const s3 = await startS3();
    project.provide("databaseUrl", server.url);
    project.provide("templateDatabase", await ensureTemplate(server.url));
    project.provide("s3", s3 && withoutStop(s3));
    return async () => {
      await Promise.all([server.stop(), s3?.stop()]);
    };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

function withoutStop<T extends { stop(): Promise<void> }>({ stop: _, ...server }: T): Omit<T, "stop"> {
  return server;
}
