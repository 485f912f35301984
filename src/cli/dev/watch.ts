// Tells when one of some files changed, once per burst. Folders are watched, since editors replace files.
import { type FSWatcher, watch } from "node:fs";
import path from "node:path";

export type FileWatch = Readonly<{
  /** Watches these files (absolute) from now on, and no others. */
  set(files: readonly string[]): void;
  close(): void;
}>;

/** Calls `onChange` when nothing has changed any more for `quietMs`. */
export function watchFiles(onChange: () => void, quietMs = 100): FileWatch {
  const folders = new Map<string, FSWatcher>();
  let watched = new Set<string>();
  let timer: NodeJS.Timeout | undefined;
  const changed = (file: string) => {
    if (!watched.has(file)) return;
    clearTimeout(timer);
    timer = setTimeout(onChange, quietMs);
  };
  const open = (folder: string) => {
    const watcher = watch(folder, (_event, name) => changed(path.join(folder, name ?? "")));
    // A folder that goes away takes its files along; they are missed when the graphs are loaded again.
    watcher.on("error", () => undefined);
    folders.set(folder, watcher);
  };
  return {
    set(files) {
      watched = new Set(files);
      const wanted = new Set(files.map((file) => path.dirname(file)));
      for (const [folder, watcher] of folders) {
        if (wanted.has(folder)) continue;
        watcher.close();
        folders.delete(folder);
      }
      for (const folder of wanted) {
        if (folders.has(folder)) continue;
        try {
          open(folder);
        } catch {
          // No such folder now: nothing to watch there.
        }
      }
    },
    close() {
      clearTimeout(timer);
      for (const watcher of folders.values()) watcher.close();
    },
  };
}
