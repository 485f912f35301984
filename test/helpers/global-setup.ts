// Once per run: a Postgres server (TEST_DATABASE_URL, else the embedded one in a folder of its own), the template
// database, and an S3 server where one can be had. Everything started here is stopped at the end.
import type { TestProject } from "vitest/node";
import { ensureTemplate } from "./database.js";
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
  const url = process.env["TEST_DATABASE_URL"];
  if (!url) throw new Error("set TEST_DATABASE_URL");
  const s3 = await startS3();
  project.provide("databaseUrl", url);
  project.provide("templateDatabase", await ensureTemplate(url));
  project.provide("s3", s3 && withoutStop(s3));
  return async () => {
    await s3?.stop();
  };
}

function withoutStop<T extends { stop(): Promise<void> }>({ stop: _, ...server }: T): Omit<T, "stop"> {
  return server;
}
