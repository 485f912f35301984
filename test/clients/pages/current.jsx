// The hook of @langchain/react, which speaks the thread protocol only.
import { useStream } from "@langchain/react";
import { start } from "./chat.jsx";

const human = (content) => ({ messages: [{ type: "human", content }] });

function useChat({ apiUrl, transport, threadId, onThreadId }) {
  const stream = useStream({ apiUrl, transport, threadId, onThreadId, assistantId: "chat" });
  return {
    stream,
    messages: stream.messages.map((message) => ({ id: message.id, type: message.type, message, text: message.text })),
    interrupt: stream.interrupt?.value,
    send: (text) => stream.submit(human(text)),
    approve: (response) => stream.respond(response),
  };
}

/** The hook's own `useMessageMetadata` names the parent of the newest state, not of the message's first, in what @langchain/react pins. */
async function fork(stream, message, text) {
  const states = await stream.client.threads.getHistory(stream.threadId, { limit: 100 });
  const first = states.findLast(({ values }) => values.messages?.some(({ id }) => id === message.id));
  await stream.submit(human(text), { forkFrom: first.parent_checkpoint.checkpoint_id });
}

function Edit({ stream, message, text }) {
  return (
    <button className="edit" onClick={() => void fork(stream, message, text)}>
      Edit
    </button>
  );
}

start(useChat, Edit);
