// A graph in a graph in a graph, for what shows of each.
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";

const State = Annotation.Root({
  seen: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});
const see = (name: string) => () => ({ seen: [name] });

const child = new StateGraph(State)
  .addNode("c_one", see("c_one"))
  .addNode("c_two", see("c_two"))
  .addEdge(START, "c_one")
  .addEdge("c_one", "c_two")
  .addEdge("c_two", END)
  .compile();

const parent = new StateGraph(State)
  .addNode("p_one", see("p_one"))
  .addNode("p_two", child)
  .addEdge(START, "p_one")
  .addEdge("p_one", "p_two")
  .addEdge("p_two", END)
  .compile();

export const graph = new StateGraph(State)
  .addNode("gp_one", see("gp_one"))
  .addNode("gp_two", parent)
  .addNode("gp_three", see("gp_three"))
  .addEdge(START, "gp_one")
  .addEdge("gp_one", "gp_two")
  .addEdge("gp_two", "gp_three")
  .addEdge("gp_three", END)
  .compile();
