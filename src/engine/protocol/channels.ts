// The names by which events of the thread protocol are asked for.
export { isSupportedChannel } from "@langchain/langgraph/stream";
