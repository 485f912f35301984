// `perdure assistants`: which version of its graph's code each is executed with.
import { type AssistantRow, getAssistant, listAssistants } from "../assistants/queries.js";
import type { Deps } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import { DEFAULT_TENANT } from "../core/ids.js";
import { OWN, UNPINNED } from "../core/pin.js";
import { noAssistant, pinAssistant } from "../engine/commands/pin-assistant.js";
import type { Engine } from "../engine/engine.js";
import { waitingPins } from "../runs/pins.js";
import type { Print } from "./open.js";
import { table } from "./output.js";
import { json } from "./wire.js";

export async function assistantsLs({ db }: Deps, print: Print): Promise<void> {
  const assistants = await listAssistants(db, DEFAULT_TENANT);
  const waiting = await waitingPins(db, DEFAULT_TENANT);
  const rows = assistants.map(({ assistantId, graphId, name, pin }) => {
    const own = waiting.filter((each) => each.assistantId === assistantId);
    const runs = own.reduce((sum, each) => sum + each.runs, 0);
    const [since = null] = own.map((each) => each.since).sort((a, b) => a.getTime() - b.getTime());
    return { assistant: assistantId, name, graph: graphId, pin, waiting: runs, since };
  });
  if (print.json) return print.line(json(rows));
  print.line(table(rows, "There are no assistants: they are made when a server starts."));
}

/** `pin`: latest, own, or a version. */
export async function assistantsPin(deps: Deps, idOrGraphId: string, pin: string, print: Print): Promise<void> {
  const assistant = await pinAssistant(deps, { tenantId: DEFAULT_TENANT, idOrGraphId, pin });
  if (print.json) return print.line(json(shown(assistant)));
  print.line(`Runs of assistant "${assistant.name}" (${assistant.assistantId}) ${SAYS[pin] ?? fixed(assistant)}`);
}

/** Pins it to the version of its graph that `engine` has. Throws `bad_request` when that has none. */
export async function assistantsPinCurrent(engine: Engine, idOrGraphId: string, print: Print): Promise<void> {
  const { deps, graphs } = engine;
  const assistant = await getAssistant(deps.db, { tenantId: DEFAULT_TENANT, idOrGraphId });
  if (assistant === undefined) throw noAssistant(idOrGraphId);
  const { graphId } = assistant;
  if (!graphs.has(graphId)) {
    throw new EngineError(
      "bad_request",
      `The langgraph.json here has no graph "${graphId}"; it has ${graphs.ids.join(", ")}`,
    );
  }
  await assistantsPin(deps, idOrGraphId, graphs.version(graphId), print);
}

const SAYS: Readonly<Record<string, string>> = {
  [UNPINNED]: "are executed by any version from now on.",
  [OWN]: "stay with the version they begin with from now on, their answers included.",
};

function fixed({ graphId, pin }: AssistantRow): string {
  return `are executed by version ${pin} of graph "${graphId}" only from now on, and wait where no worker has it.`;
}

function shown({ assistantId, graphId, name, pin }: AssistantRow) {
  return { assistant: assistantId, name, graph: graphId, pin };
}
