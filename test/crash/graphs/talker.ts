// Says six words, slowly enough to be killed between two.
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { StreamingModel } from "../../helpers/streaming-model.js";

const model = new StreamingModel(() => ({ text: "a b c d e f" }), 150);

export const talker = new StateGraph(MessagesAnnotation)
  .addNode("talk", async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
  .addEdge(START, "talk")
  .addEdge("talk", END)
  .compile();
