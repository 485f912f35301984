// Bodies as files in a folder: a temporary file, fsync, then link(), which creates a name only if there is none.
// What a crash leaves behind is a file in `.tmp`, which no key can name and no list shows.
import { randomUUID } from "node:crypto";
import { type FileHandle, link, mkdir, open, opendir, readdir, rmdir, stat, unlink } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";
import type { BodyStore } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import { bodyMissing, checkKey, checkKeyPrefix, checkRange } from "./keys.js";
import { probeStore } from "./probe.js";

const TMP = ".tmp";
const LEFTOVER_MS = 60 * 60_000;
/** Another process may remove a folder it just emptied, while we make it or before we link into it. */
const LINK_TRIES = 10;

/** A store in the folder `root` (absolute), which is made when it is first written to. */
export function createFsStore(root: string): BodyStore {
  const uri = pathToFileURL(root).href;
  const tmp = path.join(root, TMP);
  const fileOf = (key: string) => path.join(root, ...checkKey(key).split("/"));
  let ready: Promise<void> | undefined;

  const prepare = () => {
    ready ??= makeFolder(tmp).then(() => removeLeftovers(tmp));
    return ready.catch((error: unknown) => {
      ready = undefined;
      throw error;
    });
  };

  const store: BodyStore = {
    uri,
    create: (key, bytes) => {
      const file = fileOf(key);
      return named(uri, `create ${key}`, async () => {
        await prepare();
        return createFile(path.join(tmp, randomUUID()), file, bytes);
      });
    },
    read: (key, range) => {
      const file = fileOf(key);
      if (range) checkRange(range);
      return named(uri, `read ${key}`, async () => {
        const bytes = await readFile(file, range);
        if (bytes !== undefined) return bytes;
        // A folder that isn't mounted must not look like lost bodies.
        await stat(root);
        throw bodyMissing(uri, key);
      });
    },
    delete: async (keys) => {
      const files = keys.map(fileOf);
      await named(uri, "delete", async () => {
        for (const file of files) await deleteFile(root, file);
      });
    },
    list: (prefix) => listKeys(root, checkKeyPrefix(prefix)),
    probe: () => probeStore(store),
    async close() {},
  };
  return store;
}

async function createFile(tmpFile: string, file: string, bytes: Uint8Array): Promise<boolean> {
  const folder = path.dirname(file);
  try {
    await using(await open(tmpFile, "wx", 0o600), async (handle) => {
      await handle.writeFile(bytes);
      await handle.sync();
    });
    for (let tries = 1; ; tries++) {
      try {
        await makeFolder(folder);
        await link(tmpFile, file);
        await syncFolder(folder);
        return true;
      } catch (error) {
        if (codeOf(error) === "EEXIST") {
          // The other creator may not have come to its own fsync yet.
          await syncFolder(folder);
          return false;
        }
        if (codeOf(error) !== "ENOENT" || tries === LINK_TRIES) throw error;
      }
    }
  } finally {
    await unlink(tmpFile).catch(ignore("ENOENT"));
  }
}

async function readFile(file: string, range?: Readonly<{ start: number; end: number }>): Promise<Buffer | undefined> {
  const handle = await open(file, "r").catch(ignore("ENOENT", "ENOTDIR"));
  if (handle === undefined) return undefined;
  return using(handle, async () => {
    const { size } = await handle.stat();
    const start = Math.min(range?.start ?? 0, size);
    const bytes = Buffer.alloc(Math.min(range?.end ?? size, size) - start);
    for (let done = 0; done < bytes.length; ) {
      const { bytesRead } = await handle.read(bytes, done, bytes.length - done, start + done);
      if (bytesRead === 0) return bytes.subarray(0, done);
      done += bytesRead;
    }
    return bytes;
  });
}

async function deleteFile(root: string, file: string): Promise<void> {
  await unlink(file).catch(ignore("ENOENT", "ENOTDIR"));
  let folder = path.dirname(file);
  await syncFolder(folder).catch(ignore("ENOENT", "ENOTDIR"));
  for (; folder !== root; folder = path.dirname(folder)) {
    const emptied = await rmdir(folder).then(
      () => true,
      (error: unknown) => codeOf(error) === "ENOENT",
    );
    if (!emptied) return;
  }
}

async function* listKeys(root: string, prefix: string): AsyncIterable<string> {
  const whole = prefix.slice(0, prefix.lastIndexOf("/") + 1);
  const pending = [whole];
  for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
    const entries = await opendir(path.join(root, folder)).catch(ignore("ENOENT", "ENOTDIR"));
    if (entries === undefined) continue;
    for await (const entry of entries) {
      if (folder === "" && entry.name === TMP) continue;
      const key = `${folder}${entry.name}`;
      if (entry.isDirectory()) {
        if (`${key}/`.startsWith(prefix) || prefix.startsWith(`${key}/`)) pending.push(`${key}/`);
      } else if (key.startsWith(prefix)) yield key;
    }
  }
}

/** Makes the folder and all above it; each new name is on disk when this returns. */
async function makeFolder(folder: string): Promise<void> {
  const firstMade = await mkdir(folder, { recursive: true, mode: 0o700 });
  if (firstMade === undefined) return;
  for (let at = folder; ; at = path.dirname(at)) {
    await syncFolder(path.dirname(at)).catch(ignore("ENOENT"));
    if (at === firstMade) return;
  }
}

async function syncFolder(folder: string): Promise<void> {
  // Windows can't open a folder; NTFS journals the names itself.
  if (process.platform === "win32") return;
  await using(await open(folder, "r"), (handle) => handle.sync());
}

async function removeLeftovers(tmp: string): Promise<void> {
  for (const name of await readdir(tmp)) {
    const file = path.join(tmp, name);
    const found = await stat(file).catch(ignore("ENOENT"));
    if (found && Date.now() - found.mtimeMs > LEFTOVER_MS) await unlink(file).catch(ignore("ENOENT"));
  }
}

async function using<T>(handle: FileHandle, work: (handle: FileHandle) => Promise<T>): Promise<T> {
  try {
    return await work(handle);
  } finally {
    await handle.close();
  }
}

const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code;

function ignore(...codes: readonly string[]): (error: unknown) => undefined {
  return (error) => {
    if (!codes.includes(codeOf(error) ?? "")) throw error;
  };
}

const TRANSIENT = new Set(["ENOSPC", "EDQUOT", "EIO", "EMFILE", "ENFILE", "ENOENT", "ESTALE", "ETIMEDOUT", "EBUSY"]);

/** Says which store and what was tried when the file system refuses. */
async function named<T>(uri: string, what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = codeOf(error);
    if (error instanceof EngineError || typeof code !== "string") throw error;
    if (TRANSIENT.has(code))
      throw new EngineError("unavailable", `${uri}: can't ${what} now: ${code}`, { cause: error });
    const hint = code === "EPERM" || code === "ENOTSUP" ? " (the file system must allow hard links)" : "";
    throw new EngineError("config_invalid", `${uri}: can't ${what}: ${code}${hint}`, { cause: error });
  }
}
