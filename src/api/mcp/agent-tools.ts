// Agents as tools: each assistant that the caller may use, under a name that stays the same whatever else there is.
import { ErrorCode, McpError, type Tool } from "@modelcontextprotocol/sdk/types.js";
import type { Context } from "hono";
import { type AssistantRow, assistantsLike, searchAssistants, systemAssistantId } from "../../assistants/queries.js";
import { reaches } from "../../core/access.js";
import { isUuid } from "../../core/ids.js";
import { isObject } from "../../core/json-parts.js";
import { describeSchemas } from "../../engine/assistant-graph.js";
import { isSystemAssistant } from "../../engine/commands/create-assistant.js";
import type { Engine } from "../../engine/engine.js";
import type { JsonSchema } from "../../engine/graph-schemas.js";
import { ask } from "../auth/ask.js";
import { mayUseAssistant } from "../auth/ask-run.js";
import type { ApiEnv } from "../env.js";
import { text } from "../schemas/parts.js";
import { isFollowupTool } from "./followup-tools.js";

type C = Context<ApiEnv>;

const PAGE = 100;
/** Models' providers take no longer ones. */
const MAX_NAME_CHARACTERS = 64;

/** A page of them; the cursor says from where on. */
export async function listAgentTools(
  engine: Engine,
  c: C,
  cursor: string | undefined,
): Promise<Readonly<{ tools: Tool[]; nextCursor: string | undefined }>> {
  const offset = offsetOf(cursor);
  const { within } = await ask(engine, c, "assistants:search", {});
  const page = { tenantId: c.get("tenantId"), sortBy: "created_at", sortOrder: "asc", limit: PAGE, offset } as const;
  const rows = await searchAssistants(engine.deps.db, page);
  const tools: Tool[] = [];
  for (const assistant of rows) {
    const isListed = isSystemAssistant(assistant) || reaches(within, assistant.metadata);
    if (isListed && (await isUsable(engine, c, assistant))) tools.push(await toolOf(engine, assistant));
  }
  return { tools, nextCursor: rows.length === PAGE ? String(offset + PAGE) : undefined };
}

function offsetOf(cursor = "0"): number {
  if (/^\d{1,9}$/.test(cursor)) return Number(cursor);
  throw new McpError(ErrorCode.InvalidParams, "cursor: is none that this server has given");
}

/** The one that a tool's name stands for: as it is listed, or an assistant's own name or id where only one has it. */
export async function agentOf(engine: Engine, c: C, name: string): Promise<AssistantRow> {
  const found: AssistantRow[] = [];
  for (const assistant of text.safeParse(name).success ? await assistantsNamed(engine, c, name) : []) {
    const isMeant = [toolName(assistant), assistant.name, assistant.assistantId].includes(name);
    if (isMeant && (await isUsable(engine, c, assistant))) found.push(assistant);
  }
  const listed = found.find((assistant) => toolName(assistant) === name);
  const [only, ...others] = listed === undefined ? found : [listed];
  if (only === undefined) throw new McpError(ErrorCode.InvalidParams, `Unknown tool: ${name.slice(0, 200)}`);
  if (others.length === 0) return only;
  const names = found.map(toolName).join(", ");
  throw new McpError(ErrorCode.InvalidParams, `Several agents have this name; say which you mean: ${names}`);
}

/** Those that may be meant. */
function assistantsNamed({ deps }: Engine, c: C, name: string): Promise<AssistantRow[]> {
  const ids = [systemAssistantId(name), ...(isUuid(name) ? [name] : [])];
  return assistantsLike(deps.db, { tenantId: c.get("tenantId"), ids, name, idEnd: name.slice(-ID_CHARACTERS) });
}

async function isUsable(engine: Engine, c: C, assistant: AssistantRow): Promise<boolean> {
  return engine.graphs.has(assistant.graphId) && (await mayUseAssistant(engine, c, assistant));
}

const ID_CHARACTERS = 8;

/** A graph's own agent has the graph's name; others may share theirs, and carry the end of their id. */
function toolName(assistant: AssistantRow): string {
  const isOwn = isSystemAssistant(assistant);
  const given = isOwn ? assistant.graphId : assistant.name;
  const plain = given.replaceAll(/[^A-Za-z0-9_-]/g, "_");
  const fits = plain === given && plain !== "" && plain.length <= MAX_NAME_CHARACTERS && !isFollowupTool(plain);
  if (isOwn && fits) return plain;
  const end = `_${assistant.assistantId.slice(-ID_CHARACTERS)}`;
  return `${plain.slice(0, MAX_NAME_CHARACTERS - end.length)}${end}`;
}

async function toolOf(engine: Engine, assistant: AssistantRow): Promise<Tool> {
  const { name, graphId } = assistant;
  const described = assistant.description ?? engine.graphs.description(graphId);
  return {
    name: toolName(assistant),
    title: name,
    description: described ?? `Runs the agent ${JSON.stringify(name)} and answers with its final state`,
    inputSchema: (await inputOf(engine, assistant)).schema,
  };
}

type Input = Readonly<{
  schema: Tool["inputSchema"];
  /** The graph's input out of a call's arguments. */
  from(args: Readonly<Record<string, unknown>>): unknown;
}>;

/** Arguments are an object; the input of a graph may be anything. */
export async function inputOf({ graphs, deps }: Engine, assistant: AssistantRow): Promise<Input> {
  const { input } = await describeSchemas(graphs, assistant).catch((error: unknown) => {
    // What its factory can't make now it may make for a run; the other tools are to be seen in any case.
    const code = error instanceof Error ? error.name : typeof error;
    deps.log.warn({ assistant_id: assistant.assistantId, code }, "an agent's input could not be described");
    return { input: { type: "object" } };
  });
  if (input?.["type"] === "object") return { schema: { ...withMessages(input), type: "object" }, from: (args) => args };
  const properties = { input: input ?? {} };
  return { schema: { type: "object", properties, required: ["input"] }, from: (args) => args["input"] };
}

const MESSAGES: JsonSchema = {
  type: "array",
  description: 'Chat messages, like [{"role": "user", "content": "…"}]',
  items: {
    type: "object",
    properties: { role: { type: "string" }, content: { type: "string" } },
    required: ["role", "content"],
  },
};

/** What a list of messages is, graphs say only to who knows LangGraph. */
function withMessages(schema: JsonSchema): JsonSchema {
  const { properties } = schema;
  if (!isObject(properties)) return schema;
  const said = Object.entries(properties).map(([key, value]) => {
    const isMessages = isObject(value) && value["langgraph_type"] === "messages";
    return [key, isMessages ? MESSAGES : value];
  });
  return { ...schema, properties: Object.fromEntries(said) as Record<string, unknown> };
}
