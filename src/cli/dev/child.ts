// One supervised process: started again whenever it ends, quickly after a good life and ever slower after short ones.
// It is started with a channel, so that it ends by itself when the supervisor is gone.
import { type ChildProcess, spawn } from "node:child_process";
import { backoffMs } from "../../core/retry.js";

/** What a process says to the supervisor that started it. */
export type ChildMessage = Readonly<{ ready: true; url?: string }> | Readonly<{ failed: string; exitCode: number }>;

export type ChildOptions = Readonly<{
  name: string;
  /** Arguments of `node`, asked for at each start. */
  args: () => readonly string[];
  env: NodeJS.ProcessEnv;
  /** Told whenever there is another process, or it became ready. */
  onChange(): void;
  note(text: string): void;
}>;

/** The first process ended before it was ready: what it said, and its exit code. */
export class ChildFailed extends Error {
  override readonly name = "ChildFailed";
  constructor(
    message: string,
    readonly exitCode: number,
  ) {
    super(message);
  }
}

const GOOD_LIFE_MS = 10_000;
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 10_000;
const STOP_MS = 15_000;

type Life = {
  readonly process: ChildProcess;
  readonly ended: Promise<void>;
  readonly startedMs: number;
  ready: boolean;
  url: string | null;
  failed: { message: string; exitCode: number } | null;
};

export class Child {
  /** Resolves when it is ready for the first time; rejects with ChildFailed when the first process ends before. */
  readonly ready: Promise<void>;
  private resolveReady: () => void = () => undefined;
  private rejectReady: (error: ChildFailed) => void = () => undefined;
  private readonly lives = new Set<Life>();
  private current: Life | null = null;
  private wasReady = false;
  private stopped = false;
  private shortLives = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: ChildOptions) {
    this.ready = new Promise((resolve, reject) => {
      this.resolveReady = resolve;
      this.rejectReady = reject;
    });
    // Whoever starts it awaits it; a failure in between must not count as unhandled.
    this.ready.catch(() => undefined);
    this.start();
  }

  get pid(): number | null {
    return this.current?.process.pid ?? null;
  }

  get url(): string | null {
    return this.current?.url ?? null;
  }

  /** Replaces the process: a new one at once with `overlap`, else when the old one has ended. */
  async restart({ overlap }: Readonly<{ overlap: boolean }>): Promise<void> {
    clearTimeout(this.timer);
    this.shortLives = 0;
    const old = this.current;
    this.current = null;
    if (old !== null && !overlap) await end(old);
    if (!this.stopped) this.start();
    if (old !== null && overlap) await end(old);
  }

  /** Ends it for good: asks first, and after a grace time no more. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await Promise.all([...this.lives].map(end));
  }

  /** Ends it for good, now. */
  kill(): void {
    this.stopped = true;
    clearTimeout(this.timer);
    for (const life of this.lives) life.process.kill("SIGKILL");
  }

  private start(): void {
    const { args, env } = this.options;
    // In a group of its own: Ctrl-C in a terminal goes to us alone, and we ask each process once.
    const child = spawn(process.execPath, args(), {
      env,
      stdio: ["ignore", "inherit", "inherit", "ipc"],
      detached: true,
    });
    const ended = new Promise<void>((resolve) => {
      child.once("close", () => resolve());
      child.once("error", () => resolve());
    });
    const life: Life = { process: child, ended, startedMs: performance.now(), ready: false, url: null, failed: null };
    this.current = life;
    this.lives.add(life);
    child.on("message", (message: ChildMessage) => this.heard(life, message));
    void ended.then(() => this.over(life));
    this.options.onChange();
  }

  private heard(life: Life, message: ChildMessage): void {
    if ("failed" in message) {
      life.failed = { message: message.failed, exitCode: message.exitCode };
      return;
    }
    life.ready = true;
    life.url = message.url ?? null;
    this.wasReady = true;
    this.resolveReady();
    this.options.onChange();
  }

  private over(life: Life): void {
    this.lives.delete(life);
    if (life !== this.current) return;
    this.current = null;
    const { exitCode, signalCode } = life.process;
    const how = life.failed?.message ?? signalCode ?? `exit code ${exitCode ?? "unknown"}`;
    if (!this.wasReady) this.rejectReady(new ChildFailed(how, life.failed?.exitCode ?? exitCode ?? 1));
    if (this.stopped || !this.wasReady) return;
    this.shortLives = life.ready && performance.now() - life.startedMs > GOOD_LIFE_MS ? 0 : this.shortLives + 1;
    const waitMs = backoffMs(this.shortLives + 1, 1, FIRST_WAIT_MS / 2, LONGEST_WAIT_MS);
    this.options.note(`${this.options.name} ended (${how}); starting it again in ${(waitMs / 1000).toFixed(1)} s`);
    this.timer = setTimeout(() => this.start(), waitMs);
    this.options.onChange();
  }
}

async function end(life: Life): Promise<void> {
  life.process.kill("SIGTERM");
  const late = setTimeout(() => life.process.kill("SIGKILL"), STOP_MS);
  await life.ended;
  clearTimeout(late);
}
