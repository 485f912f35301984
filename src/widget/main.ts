// The script of a page that has a chat: `<script src="…/v1/widget.js" data-account="…">`. Nothing is asked of the server before somebody
// opens it, unless they were here before.
import { type Client, createClient } from "./client.js";
import { createConversation } from "./conversation.js";
import { createServer } from "./server.js";
import { createSessions } from "./session.js";
import { createView } from "./view.js";

function main(script: HTMLScriptElement): void {
  const { account = "", api, title = "Chat with us", greeting = "Hello! How can we help?", accent } = script.dataset;
  if (account === "") return console.error("perdure widget: the script has no data-account");
  const root = (api ?? new URL(script.src).origin).replace(/\/$/, "");
  const identity = (): string | undefined => script.dataset["identity"] || undefined;

  const sessions = createSessions({ api: root, account, identity });
  const conversation = createConversation(() => view.show(conversation.shown()));
  const isSeen = (): boolean => view.isOpen() && document.visibilityState === "visible";
  const view = createView(
    { title, greeting, accent },
    {
      onOpen() {
        client.start();
        client.acknowledge();
      },
      onWrite: (text) => client.write(text),
      onResend: ({ id, text }) => client.resend(id, text),
      onDecide: (approvalId, decision) => client.decide(approvalId, decision),
      onEarlier: () => client.loadEarlier(),
    },
  );
  const client: Client = createClient({
    ...{ account, sessions, conversation, isSeen, server: createServer(root, sessions) },
    onNew: view.tell,
    onConnection: view.connection,
  });
  document.addEventListener("visibilitychange", client.acknowledge);
  view.mount();
  view.show(conversation.shown());
  if (sessions.isKnown()) client.start();
}

const script = document.currentScript;
if (script instanceof HTMLScriptElement) {
  if (document.body) main(script);
  else document.addEventListener("DOMContentLoaded", () => main(script), { once: true });
}
