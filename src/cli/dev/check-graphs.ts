// Loads the graphs in a process of its own: what a graph file does on import can't touch the supervisor, and an edited
// file is really read again.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { z } from "zod";

const REPORT = z.object({
  graphs: z.array(z.object({ id: z.string(), version: z.string() })),
  files: z.array(z.string()),
});
export type GraphReport = z.infer<typeof REPORT>;

export type GraphCheck =
  | Readonly<{ ok: true; report: GraphReport }>
  | Readonly<{ ok: false; problem: string; exitCode: number }>;

/** Runs `node <args>`, which must be the command `graphs --json`. */
export async function checkGraphs(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<GraphCheck> {
  const child = spawn(process.execPath, args, {
    env,
    stdio: ["ignore", "pipe", "pipe"],
    signal,
    killSignal: "SIGKILL",
  });
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output.stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output.stderr += text));
  child.on("error", () => undefined);
  await once(child, "close").catch(() => undefined);
  if (child.exitCode !== 0) {
    // What graph files print on import stands before it.
    const said = output.stderr.slice(output.stderr.lastIndexOf("perdure: ") + "perdure: ".length).trim();
    return { ok: false, problem: said || "the graphs could not be loaded", exitCode: child.exitCode ?? 1 };
  }
  // A graph file may print on import; the report is the last line.
  const last = output.stdout.trim().split("\n").at(-1) ?? "";
  const report = REPORT.safeParse(parseJson(last));
  if (report.success) return { ok: true, report: report.data };
  return { ok: false, problem: "the graphs could not be listed", exitCode: 1 };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}
