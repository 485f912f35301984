// Under which account Postgres runs. It refuses root, and an account without an entry in /etc/passwd; a user namespace
// helps with both and needs no change of ownership, so that it also works below a folder like /root (mode 0700).
import { execFile } from "node:child_process";
import { chown, readdir, stat } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { EngineError } from "../../core/errors.js";

const run = promisify(execFile);

export type Account = Readonly<{
  /** How to start a program: command, its first arguments, and the user to become. */
  command(program: string, args: readonly string[]): { file: string; args: string[]; uid?: number; gid?: number };
  /** Gives a file or a new folder to the account. */
  own(file: string): Promise<void>;
}>;

const direct: Account = { command: (file, args) => ({ file, args: [...args] }), own: async () => undefined };

/** Inside, we are `daemon`, which every system has; outside, files stay ours. */
const NAMESPACE = ["--user", "--map-user=1", "--map-group=1", "--"];
const namespaced: Account = {
  command: (program, args) => ({ file: "unshare", args: [...NAMESPACE, program, ...args] }),
  own: async () => undefined,
};

function other({ uid, gid }: { uid: number; gid: number }): Account {
  return {
    command: (file, args) => ({ file, args: [...args], uid, gid }),
    own: (file) => chown(file, uid, gid),
  };
}

/** The account for this data dir: whoever owns it when it is there already. */
export async function chooseAccount(dataDir: string): Promise<Account> {
  const uid = process.getuid?.();
  if (uid === undefined) return direct; // Windows
  const owner = await ownerOf(dataDir);
  if (uid !== 0) {
    if (owner !== null && owner.uid !== uid) {
      throw new EngineError(
        "config_invalid",
        `The data dir ${dataDir} belongs to the user with uid ${owner.uid}, and this process runs as ${uid}. Run it as that user, or choose another --data-dir.`,
      );
    }
    return (await hasName(uid)) || !(await canMakeNamespace()) ? direct : namespaced;
  }
  if (owner !== null && owner.uid !== 0) return other(owner);
  if (await canMakeNamespace()) return namespaced;
  const account = (await lookUp("postgres")) ?? (await lookUp("nobody"));
  if (account === null || owner !== null) {
    throw new EngineError(
      "config_invalid",
      "Postgres refuses to run as root, and neither `unshare --user` nor another account can be used here. Run as another user, or set DATABASE_URL.",
    );
  }
  return other(account);
}

/** The owner of a data dir with something in it; an empty one can still become anybody's. */
async function ownerOf(dataDir: string): Promise<{ uid: number; gid: number } | null> {
  try {
    const { uid, gid } = await stat(path.join(dataDir, "PG_VERSION"));
    return { uid, gid };
  } catch {
    const entries = await readdir(dataDir).catch(() => []);
    if (entries.length === 0) return null;
    const { uid, gid } = await stat(dataDir);
    return { uid, gid };
  }
}

async function canMakeNamespace(): Promise<boolean> {
  if (process.platform !== "linux") return false;
  return run("unshare", [...NAMESPACE, "true"]).then(
    () => true,
    () => false,
  );
}

function hasName(uid: number): Promise<boolean> {
  return run("id", ["-un", String(uid)]).then(
    () => true,
    () => false,
  );
}

async function lookUp(name: string): Promise<{ uid: number; gid: number } | null> {
  const id = (flag: string): Promise<number> => run("id", [flag, name]).then(({ stdout }) => Number(stdout.trim()));
  return Promise.all([id("-u"), id("-g")]).then(
    ([uid, gid]) => ({ uid, gid }),
    () => null,
  );
}
