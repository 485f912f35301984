// How a script answers what the benchmark asks it over its channel.
export type Call = Readonly<{ id: number; method: string; args: object }>;
export type Answer = Readonly<{ id: number } & ({ result: unknown } | { error: string })>;

/** Answers each call by the function of its name; one at a time is asked of a script. */
export function serveCalls(methods: Readonly<Record<string, (args: never) => unknown>>): void {
  const answer = async ({ id, method, args }: Call): Promise<Answer> => {
    try {
      const work = methods[method];
      if (work === undefined) throw new Error("there is no such method");
      return { id, result: await work(args as never) };
    } catch (error) {
      return { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
    }
  };
  process.on("message", (call: Call) => void answer(call).then((done) => process.send?.(done)));
  process.on("disconnect", () => process.exit(0));
  process.on("SIGTERM", () => process.exit(0));
}
