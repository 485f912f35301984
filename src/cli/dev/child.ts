// One supervised process: started again whenever it ends, quickly after a good life and ever slower after short ones.
// It is started with a channel, so that it ends by itself when the supervisor is gone, and takes nothing before it is told to: what is to
// take its place comes up beside it.
import { type ChildProcess, spawn } from "node:child_process";
import { backoffMs } from "../../core/retry.js";

/** What a process says to the supervisor that started it. */
export type ChildMessage =
  /** It could begin, and waits to be told. */
  | Readonly<{ prepared: true }>
  | Readonly<{ ready: true; url?: string }>
  | Readonly<{ failed: string; exitCode: number }>;

/** What the supervisor says: begin. */
export type ParentMessage = Readonly<{ begin: true }>;

/** A process that could take another's place. */
export type Successor = Readonly<{
  /** It does, as soon as it can; what it replaces ends by itself. Where it can't, all stays as it was. */
  take(): Promise<void>;
  drop(): Promise<void>;
}>;

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
  readonly prepared: Promise<void>;
  /** That it is. */
  readonly hear: () => void;
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

  /** Starts what is to take the process's place. */
  prepare(): Successor {
    const life = this.spawn();
    return { take: () => this.replaceBy(life), drop: () => end(life) };
  }

  private async replaceBy(life: Life): Promise<void> {
    const isPrepared = await Promise.race([life.prepared.then(() => true), life.ended.then(() => false)]);
    if (this.stopped) return;
    if (!isPrepared) {
      this.options.note(`${this.options.name} goes on as it was: its new process ended (${howOf(life)})`);
      return;
    }
    clearTimeout(this.timer);
    this.shortLives = 0;
    const old = this.current;
    this.current = life;
    // What it executes it may take its time for.
    if (old !== null) void end(old);
    begin(life);
    this.options.onChange();
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
    const life = this.spawn();
    this.current = life;
    void life.prepared.then(() => begin(life));
    this.options.onChange();
  }

  private spawn(): Life {
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
    let hear = (): void => undefined;
    const prepared = new Promise<void>((resolve) => (hear = resolve));
    const begun = { process: child, ended, startedMs: performance.now(), prepared, hear };
    const life: Life = { ...begun, ready: false, url: null, failed: null };
    this.lives.add(life);
    child.on("message", (message: ChildMessage) => this.heard(life, message));
    void ended.then(() => this.over(life));
    return life;
  }

  private heard(life: Life, message: ChildMessage): void {
    if ("failed" in message) {
      life.failed = { message: message.failed, exitCode: message.exitCode };
      return;
    }
    if ("prepared" in message) return life.hear();
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
    const how = howOf(life);
    if (!this.wasReady) this.rejectReady(new ChildFailed(how, life.failed?.exitCode ?? life.process.exitCode ?? 1));
    if (this.stopped || !this.wasReady) return;
    this.shortLives = life.ready && performance.now() - life.startedMs > GOOD_LIFE_MS ? 0 : this.shortLives + 1;
    const waitMs = backoffMs(this.shortLives + 1, 1, FIRST_WAIT_MS / 2, LONGEST_WAIT_MS);
    this.options.note(`${this.options.name} ended (${how}); starting it again in ${(waitMs / 1000).toFixed(1)} s`);
    this.timer = setTimeout(() => this.start(), waitMs);
    this.options.onChange();
  }
}

function howOf({ failed, process: { exitCode, signalCode } }: Life): string {
  return failed?.message ?? signalCode ?? `exit code ${exitCode ?? "unknown"}`;
}

function begin({ process: child }: Life): void {
  const message: ParentMessage = { begin: true };
  // It may have ended between our looking and our sending.
  if (child.connected) child.send(message, () => undefined);
}

async function end(life: Life): Promise<void> {
  life.process.kill("SIGTERM");
  const late = setTimeout(() => life.process.kill("SIGKILL"), STOP_MS);
  await life.ended;
  clearTimeout(late);
}
