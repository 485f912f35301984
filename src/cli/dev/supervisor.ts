// The processes of a development server: one API, some workers, restarted when they end and when the graphs change.
// dev.json always names those of now.
import type { Output } from "../output.js";
import { Child, type Successor } from "./child.js";
import { urlOf } from "./address.js";
import { writeDevFile } from "./data-dir.js";

/** The flag of processes that begin when they are told. */
const SUPERVISED = "--supervised";

export type SupervisorOptions = Readonly<{
  dataDir: string;
  databaseUrl: string;
  bodies: string;
  workers: number;
  host: string;
  port: number;
  /** Arguments of `node` for a command of perdure. */
  command(name: string, ...args: readonly string[]): readonly string[];
  env: NodeJS.ProcessEnv;
  out: Output;
}>;

export class Supervisor {
  private readonly workers: Child[] = [];
  private api: Child | null = null;
  private apiUrl: string | null = null;
  private complete = false;
  private writing: Promise<void> = Promise.resolve();

  constructor(private readonly options: SupervisorOptions) {}

  /** Starts everything; resolves with the API's URL when all of it is ready, rejects with ChildFailed otherwise. */
  async start(): Promise<string> {
    const { workers, host, port } = this.options;
    // A free port is chosen once: a restarted API must be found where it was.
    const address = () => ["--host", host, "--port", this.apiUrl === null ? String(port) : new URL(this.apiUrl).port];
    this.api = this.child("the API", () => this.options.command("api", SUPERVISED, ...address()));
    // Workers are told where it is; which port is free nobody knows before it has it.
    if (port === 0) await this.api.ready;
    const apiUrl = this.api.url ?? urlOf(host, port);
    for (let n = 1; n <= workers; n += 1) {
      const name = workers === 1 ? "the worker" : `worker ${n}`;
      this.workers.push(
        this.child(name, () => this.options.command("worker", SUPERVISED), { PERDURE_API_URL: apiUrl }),
      );
    }
    await Promise.all(this.all().map((child) => child.ready));
    if (this.api.url === null) throw new Error("the API did not say where it listens");
    this.apiUrl = this.api.url;
    this.complete = true;
    this.publish();
    await this.writing;
    return this.apiUrl;
  }

  /** New processes for new code. They come up beside the old ones: while the graphs are loaded, requests and runs are taken as before. */
  prepare(): Successor {
    const successors = this.all().map((child) => child.prepare());
    return {
      take: async () => void (await Promise.all(successors.map((successor) => successor.take()))),
      drop: async () => void (await Promise.all(successors.map((successor) => successor.drop()))),
    };
  }

  async stop(): Promise<void> {
    this.complete = false;
    await Promise.all(this.all().map((child) => child.stop()));
    await this.writing;
  }

  kill(): void {
    for (const child of this.all()) child.kill();
  }

  private all(): Child[] {
    return this.api === null ? this.workers : [this.api, ...this.workers];
  }

  private child(name: string, args: () => readonly string[], own: Readonly<Record<string, string>> = {}): Child {
    const { out } = this.options;
    const env = { ...this.options.env, ...own };
    return new Child({ name, args, env, onChange: () => this.publish(), note: (text) => out.note(`perdure: ${text}`) });
  }

  private publish(): void {
    this.writing = this.writing.then(async () => {
      const api = this.api?.pid ?? null;
      if (!this.complete || this.apiUrl === null || api === null) return;
      const workers = this.workers.flatMap((worker) => worker.pid ?? []);
      await writeDevFile(this.options.dataDir, {
        api_url: this.apiUrl,
        database_url: this.options.databaseUrl,
        bodies: this.options.bodies,
        pids: { supervisor: process.pid, api, workers },
      }).catch((error: unknown) => {
        this.options.out.note(`perdure: dev.json could not be written (${(error as NodeJS.ErrnoException).code})`);
      });
    });
  }
}
