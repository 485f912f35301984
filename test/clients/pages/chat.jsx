// A chat as one would build it on a stock hook: which hook is the page's business. The thread is in the address, so that reloading and a
// second tab find it.
import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

/** `useChat` gets where the server and the thread are, and returns what `Chat` shows. */
export function start(useChat, Edit) {
  function App() {
    const [threadId, setThreadId] = useState(() => location.hash.slice(1) || null);
    useEffect(() => {
      const follow = () => setThreadId(location.hash.slice(1) || null);
      window.addEventListener("hashchange", follow);
      return () => window.removeEventListener("hashchange", follow);
    }, []);
    const onThreadId = (id) => {
      history.replaceState(null, "", `#${id ?? ""}`);
      setThreadId(id);
    };
    return <Chat {...useChat({ ...window.server, threadId, onThreadId })} Edit={Edit} />;
  }
  createRoot(document.getElementById("root")).render(<App />);
}

function Chat({ stream, messages, interrupt, send, approve, Edit }) {
  const [text, setText] = useState("");
  const say = (event) => {
    event.preventDefault();
    void send(text);
    setText("");
  };
  return (
    <main>
      <ol>
        {messages.map(({ id, type, text: said, message }, n) => (
          <li key={id ?? n} data-type={type}>
            <span>{said}</span>
            {type === "human" && <Edit stream={stream} message={message} text={text} />}
          </li>
        ))}
      </ol>
      <output id="loading">{String(stream.isLoading)}</output>
      <output id="error">{stream.error == null ? "" : String(stream.error)}</output>
      {interrupt !== undefined && (
        <p id="question">
          {JSON.stringify(interrupt)}
          <button id="approve" onClick={() => void approve("yes")}>
            Approve
          </button>
        </p>
      )}
      <form onSubmit={say}>
        <input id="text" value={text} onChange={(event) => setText(event.target.value)} />
        <button id="send">Send</button>
      </form>
      <button id="stop" onClick={() => void stream.stop()}>
        Stop
      </button>
    </main>
  );
}
