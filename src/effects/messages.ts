// What a model is told in the place of a result.
import { type BaseMessage, ToolMessage } from "@langchain/core/messages";
import { isCommand } from "@langchain/langgraph";

/** What of a model's call tells where its answer belongs. */
export type CalledTool = Readonly<{ name: string; id?: string | undefined }>;

export function messageFor({ name, id }: CalledTool, content: string): ToolMessage {
  return new ToolMessage({ status: "error", name, content, tool_call_id: id ?? "" });
}

/** What a call returned, as the message that answers it; undefined when it returned none. */
export function resultFor({ name, id = "" }: CalledTool, value: unknown): BaseMessage | undefined {
  if (isMessage(value)) return value;
  if (isCommand(value)) {
    const { messages } = (value.update ?? {}) as { messages?: unknown };
    return [messages].flat().find((each): each is ToolMessage => isMessage(each) && answers(each, id));
  }
  const content = typeof value === "string" ? value : JSON.stringify(value ?? null);
  return new ToolMessage({ name, content, tool_call_id: id });
}

function isMessage(value: unknown): value is BaseMessage {
  return typeof (value as { getType?: unknown } | null | undefined)?.getType === "function";
}

function answers(message: BaseMessage, callId: string): boolean {
  return (message as { tool_call_id?: unknown }).tool_call_id === callId;
}

export function stoppedText(name: string, inDoubt: boolean): string {
  const doubt = inDoubt ? "Whether it was done before isn't known." : "What may have been done before was undone.";
  return `"${name}" was stopped by a person. ${doubt}`;
}
