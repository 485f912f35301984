// What a model is told in the place of a result.
import { ToolMessage } from "@langchain/core/messages";

/** What of a model's call tells where its answer belongs. */
export type CalledTool = Readonly<{ name: string; id?: string | undefined }>;

export function messageFor({ name, id }: CalledTool, content: string): ToolMessage {
  return new ToolMessage({ status: "error", name, content, tool_call_id: id ?? "" });
}

export function stoppedText(name: string, inDoubt: boolean): string {
  const doubt = inDoubt ? "Whether it was done before isn't known." : "What may have been done before was undone.";
  return `"${name}" was stopped by a person. ${doubt}`;
}
