// The hook that comes with the SDK, as Agent Chat UI uses it.
import { useStream } from "@langchain/langgraph-sdk/react";
import { start } from "./chat.jsx";

const human = (content) => ({ messages: [{ type: "human", content }] });

function useChat({ apiUrl, threadId, onThreadId }) {
  const stream = useStream({
    ...{ apiUrl, threadId, onThreadId, assistantId: "chat" },
    reconnectOnMount: true,
    fetchStateHistory: true,
  });
  return {
    stream,
    messages: stream.messages.map((message) => ({ ...message, message, text: String(message.content) })),
    interrupt: stream.interrupt?.value,
    send: (text) => stream.submit(human(text), { streamResumable: true }),
    approve: (resume) => stream.submit(undefined, { command: { resume }, streamResumable: true }),
  };
}

function Edit({ stream, message, text }) {
  const { firstSeenState, branch, branchOptions } = stream.getMessagesMetadata(message) ?? {};
  const checkpoint = firstSeenState?.parent_checkpoint;
  const at = branchOptions?.indexOf(branch) ?? -1;
  return (
    <>
      <button
        className="edit"
        disabled={checkpoint == null}
        onClick={() => void stream.submit(human(text), { checkpoint })}
      >
        Edit
      </button>
      {branchOptions !== undefined && (
        <button className="branch" onClick={() => stream.setBranch(branchOptions[(at + 1) % branchOptions.length])}>
          {`${at + 1} of ${branchOptions.length}`}
        </button>
      )}
    </>
  );
}

start(useChat, Edit);
