// A real S3 server for the tests: one given by environment, else a Ceph RADOS Gateway of this machine's own packages
// (Debian: radosgw, ceph-mon, ceph-osd), in memory, on loopback, in a folder that goes away with it.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync, openSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { randomUUID } from "node:crypto";
import { quietPort } from "./ports.js";

export type S3Server = Readonly<{
  endpoint: string;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
  /** Where it isn't allowed to make buckets: the one to use. */
  bucket?: string;
}>;
export type RunningS3 = S3Server & Readonly<{ stop(): Promise<void> }>;

export const NO_S3 =
  "no S3 server: set PERDURE_TEST_S3_ENDPOINT, _ACCESS_KEY_ID, _SECRET_ACCESS_KEY (and _REGION, _BUCKET), or on Debian: apt-get install -y --no-install-recommends radosgw ceph-mon ceph-osd";

/** True where a test run without an S3 server must fail instead of reporting skipped tests. */
export function s3Required(): boolean {
  return process.env["CI"] === "true" || process.env["PERDURE_TEST_REQUIRE_S3"] === "1";
}

/** The server for this test run, to be stopped at its end; null when there is none and none is required. */
export async function startS3(): Promise<RunningS3 | null> {
  const given = s3FromEnvironment();
  if (given) return { ...given, stop: async () => {} };
  if (!["radosgw", "radosgw-admin", "ceph", "ceph-mon", "ceph-osd", "ceph-authtool", "monmaptool"].every(onPath)) {
    if (s3Required()) throw new Error(NO_S3);
    return null;
  }
  for (let tries = 1; ; tries++) {
    try {
      return await startGateway();
    } catch (error) {
      // A port that was free a moment ago may have been taken.
      if (tries === 3) throw error;
    }
  }
}

function s3FromEnvironment(): S3Server | undefined {
  const env = process.env;
  const endpoint = env["PERDURE_TEST_S3_ENDPOINT"];
  if (!endpoint) return undefined;
  const bucket = env["PERDURE_TEST_S3_BUCKET"];
  return {
    endpoint,
    region: env["PERDURE_TEST_S3_REGION"] ?? "us-east-1",
    accessKeyId: env["PERDURE_TEST_S3_ACCESS_KEY_ID"] ?? "",
    secretAccessKey: env["PERDURE_TEST_S3_SECRET_ACCESS_KEY"] ?? "",
    ...(bucket && { bucket }),
  };
}

const onPath = (name: string) =>
  (process.env["PATH"] ?? "").split(path.delimiter).some((folder) => existsSync(path.join(folder, name)));

async function startGateway(): Promise<RunningS3> {
  const dir = await mkdtemp(path.join(os.tmpdir(), "perdure-s3-"));
  const daemons: ChildProcess[] = [];
  const stop = async () => {
    for (const daemon of daemons.splice(0).reverse()) await stopDaemon(daemon);
    await rm(dir, { recursive: true, force: true });
  };
  try {
    const [port, monPort] = [await quietPort(), await quietPort()];
    const conf = path.join(dir, "ceph.conf");
    for (const name of ["mon", "osd", "log", "run"]) await mkdir(path.join(dir, name));
    const fsid = randomUUID();
    await writeFile(conf, configuration(dir, fsid, port, monPort));
    await makeKeys(path.join(dir, "keyring"));
    const daemon = (name: string, args: readonly string[]) =>
      daemons.push(startDaemon(name, ["-c", conf, ...args, "-f"], path.join(dir, "log", `${name}.out`)));
    const ceph = (...args: string[]) => run("ceph", ["-c", conf, ...args]);

    await run("monmaptool", ["--create", "--addv", "a", `[v2:127.0.0.1:${monPort}]`, "--fsid", fsid, `${dir}/monmap`]);
    await run("ceph-mon", [
      "-c",
      conf,
      "-i",
      "a",
      "--mkfs",
      "--keyring",
      `${dir}/keyring`,
      "--monmap",
      `${dir}/monmap`,
    ]);
    daemon("ceph-mon", ["-i", "a"]);
    const osdUuid = randomUUID();
    const osd = (await ceph("osd", "new", osdUuid)).trim();
    await run("ceph-osd", ["-c", conf, "-i", osd, "--mkfs", "--osd-uuid", osdUuid]);
    await ceph("osd", "crush", "add", `osd.${osd}`, "1.0", "root=default", "host=h");
    daemon("ceph-osd", ["-i", osd]);
    await until("the osd is up", async () => / 1 up/.test(await ceph("osd", "stat")));
    daemon("radosgw", ["-n", "client.rgw"]);
    const endpoint = `http://127.0.0.1:${port}`;
    await until("the gateway answers", async () => (await fetch(endpoint)).status < 500);
    const [accessKeyId, secretAccessKey] = ["perdure-test", "perdure-test-secret"];
    const keys = [`--access-key=${accessKeyId}`, `--secret-key=${secretAccessKey}`];
    await run("radosgw-admin", ["-c", conf, "user", "create", "--uid=test", "--display-name=test", ...keys]);
    return { endpoint, region: "us-east-1", accessKeyId, secretAccessKey, stop };
  } catch (error) {
    const logs = await Promise.all(
      ["ceph-mon", "ceph-osd", "radosgw"].map((name) => readFile(`${dir}/log/${name}.out`, "utf8").catch(() => "")),
    );
    await stop();
    throw new Error(`Ceph didn't start: ${logs.join("\n").slice(-2_000)}`, { cause: error });
  }
}

/** cephx is on, because the gateway loops without it; quick paxos settings make the start take 2 s instead of 14. */
function configuration(dir: string, fsid: string, port: number, monPort: number): string {
  return `[global]
fsid = ${fsid}
mon initial members = a
mon host = [v2:127.0.0.1:${monPort}]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = false
keyring = ${dir}/keyring
run dir = ${dir}/run
admin socket = ${dir}/run/$name.$pid.asok
pid file = ${dir}/run/$name.pid
log file = ${dir}/log/$name.log
mon cluster log file = ${dir}/log/cluster.log
mon data = ${dir}/mon
mon data avail crit = 1
mon data avail warn = 1
mon allow pool size one = true
mon osd min up ratio = 0
mon max pg per osd = 1000
paxos propose interval = 0.01
paxos min wait = 0.01
osd data = ${dir}/osd
osd objectstore = memstore
memstore device bytes = 4294967296
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd max object name len = 256
osd max object namespace len = 64
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:${port}
rgw enable usage log = false
rgw thread pool size = 64
rgw crypt require ssl = false
debug rgw = 0
`;
}

async function makeKeys(keyring: string): Promise<void> {
  const key = (name: string, ...caps: string[]) => run("ceph-authtool", [keyring, "--gen-key", "-n", name, ...caps]);
  const cap = (of: string, allow: string) => ["--cap", of, allow];
  await run("ceph-authtool", ["--create-keyring", keyring]);
  await key("mon.", ...cap("mon", "allow *"));
  await key("client.admin", ...cap("mon", "allow *"), ...cap("osd", "allow *"), ...cap("mgr", "allow *"));
  await key("client.rgw", ...cap("mon", "allow rwx"), ...cap("osd", "allow rwx"));
  await key("osd.0", ...cap("mon", "allow profile osd"), ...cap("osd", "allow *"));
}

/** Ends with the test run even if that is killed, where the system can say so (util-linux). */
function startDaemon(name: string, args: readonly string[], logFile: string): ChildProcess {
  const log = openSync(logFile, "a");
  const command = onPath("setpriv") ? ["setpriv", "--pdeathsig", "KILL", name, ...args] : [name, ...args];
  return spawn(command[0]!, command.slice(1), { stdio: ["ignore", log, log] });
}

async function stopDaemon(daemon: ChildProcess): Promise<void> {
  if (daemon.exitCode !== null || daemon.signalCode !== null || daemon.pid === undefined) return;
  const ended = new Promise((resolve) => daemon.once("exit", resolve));
  daemon.kill("SIGTERM");
  const force = setTimeout(() => daemon.kill("SIGKILL"), 3_000);
  await ended;
  clearTimeout(force);
}

async function run(command: string, args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(command, [...args], { timeout: 30_000 });
  return stdout;
}

async function until(what: string, ready: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 300; tries++) {
    if (await ready().catch(() => false)) return;
    await sleep(100);
  }
  throw new Error(`waited in vain until ${what}`);
}
