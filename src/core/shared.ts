// What a process has one of, however many copies of a module: the engine and the tools of a project may have one each.

/** The one of this name; made by whoever asks first. */
export function shared<T>(name: string, make: () => T): T {
  const all = globalThis as unknown as Record<symbol, T | undefined>;
  return (all[Symbol.for(`perdure.${name}`)] ??= make());
}
