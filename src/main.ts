#!/usr/bin/env node
// The binary: the command line in, and over to one command.
import { fileURLToPath } from "node:url";
import type { SetUp } from "./cli/commands/set-up.js";
import { errorText, exitCodeOf, terminal } from "./cli/output.js";
import { runProgram } from "./cli/program.js";
import { readVersions } from "./engine/versions.js";
import {
  databaseOf,
  findInstallation,
  loadAuth,
  loadGraphs,
  NO_BODIES,
  open,
  printer,
  quietLog,
  readProjectSettings,
  readSettings,
  told,
  tryOthers,
  withParts,
} from "./open.js";
import { createServing, tellSupervisor } from "./serving.js";

const setUp: SetUp = {
  async migrate(place) {
    const { config } = await readSettings(place);
    const { migrateCommand } = await import("./cli/migrate.js");
    await migrateCommand(databaseOf(config, "migrate"), quietLog(config), printer(place));
  },

  async doctor(place) {
    const settings = await readSettings(place);
    const { config, project } = settings;
    const { databaseUrl, bodies } = await findInstallation(config, place.dataDir);
    const { doctor } = await import("./cli/doctor.js");
    const { createNotifier } = await import("./db/listen.js");
    return await withParts(place, settings, { bodies: bodies !== null, schema: false }, async ({ deps }) => {
      const otherNotifier = createNotifier({ ...deps, listenUrl: config.listenUrl ?? databaseUrl });
      const loadAll = project === null ? null : () => loadGraphs(project);
      const examined = { deps, otherNotifier, loadGraphs: loadAll, noBodies: bodies === null ? NO_BODIES : null };
      const healthy = await doctor({ ...examined, pollMs: config.pollMs }, printer(place));
      await otherNotifier.close();
      return healthy;
    });
  },

  async graphs(place) {
    const { project } = await readProjectSettings(place);
    const { graphsLs } = await import("./cli/graphs.js");
    for (const warning of project.warnings) terminal.note(`perdure: ${project.path}: ${warning}`);
    const graphs = await loadGraphs(project);
    // What a changed project is tried with before it takes another's place.
    await loadAuth(project);
    await graphsLs(graphs, project.settings.policyOf, await tryOthers(project), printer(place));
  },
};

async function main(): Promise<number> {
  try {
    const serving = createServing(fileURLToPath(import.meta.url));
    return await runProgram(process.argv.slice(2), readVersions().perdure, { serving, setUp, open });
  } catch (error) {
    const exitCode = exitCodeOf(error);
    const text = errorText(error, told.withStacks);
    if (!tellSupervisor({ failed: text.replace(/^perdure: /, ""), exitCode })) terminal.note(text);
    return exitCode;
  }
}

// Graphs may hold sockets and timers of their own: what we opened is closed, and nothing else is waited for.
process.exit(await main());
