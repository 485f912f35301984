// The CPU time that a local Postgres server has taken, all its processes together; from /proc, in steps of 10 ms.
import { readdir, readFile } from "node:fs/promises";
import pg from "pg";

const MS_PER_TICK = 10;

export async function serverCpuMs(url: string): Promise<number> {
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  const postmaster = (await statOf(rows[0]?.pid ?? 0))?.parent;
  await client.end();
  let ticks = 0;
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const stat = await statOf(Number(name));
    if (stat === undefined) continue;
    if (stat.parent === postmaster) ticks += stat.own;
    // Those that have ended are counted with their parent.
    if (stat.pid === postmaster) ticks += stat.own + stat.ended;
  }
  return ticks * MS_PER_TICK;
}

async function statOf(pid: number) {
  const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const fields = text
    .slice(text.lastIndexOf(")") + 2)
    .split(" ")
    .map(Number);
  const [utime = 0, stime = 0, cutime = 0, cstime = 0] = fields.slice(11, 15);
  return { pid, parent: fields[1], own: utime + stime, ended: cutime + cstime };
}
