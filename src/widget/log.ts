// The conversation as elements, each made once: messages, questions with their buttons, and the days between them.
import type { Shown, Unsent } from "./conversation.js";
import { arrange, el } from "./dom.js";
import { render } from "./markdown.js";
import type { Asked, Item } from "./wire.js";

export type LogActions = Readonly<{
  onDecide: (approvalId: string, decision: "approve" | "reject") => Promise<void>;
  onResend: (message: Unsent) => void;
}>;

export function createLog(
  log: Element,
  lead: readonly Element[],
  agentName: string,
  { onDecide, onResend }: LogActions,
) {
  const made = new Map<string, { element: Element; state: string }>();

  /** The element of that key, made anew only when what it shows has changed. */
  function once(key: string, state: string, make: () => Element): Element {
    const found = made.get(key);
    if (found?.state === state) return found.element;
    const element = make();
    made.set(key, { element, state });
    return element;
  }

  return {
    show({ items, unsent }: Shown): void {
      const wanted: Element[] = [...lead];
      let day = "";
      const put = (at: string, element: Element): void => {
        const its = dayOf(at);
        if (its !== day) wanted.push(once(`day ${its}`, its, () => el("div", { class: "day" }, its)));
        day = its;
        wanted.push(element);
      };
      for (const item of items) {
        const state = item.approval?.status ?? "";
        put(
          item.at,
          once(item.id, state, () => itemElement(item, agentName, onDecide)),
        );
      }
      for (const message of unsent) {
        put(
          message.at,
          once(`unsent ${message.id}`, String(message.failed), () => unsentElement(message, onResend)),
        );
      }
      arrange(log, wanted);
    },
  };
}

function itemElement(item: Item, agentName: string, onDecide: LogActions["onDecide"]): Element {
  const isAgent = item.author === "agent";
  const text = el("div", { class: "text" }, ...(isAgent ? [render(item.text)] : [item.text]));
  const article = el("div", { class: `item ${item.author}` }, said(isAgent ? agentName : "You"), text);
  if (item.approval !== null) article.append(choices(item.approval, onDecide));
  article.append(el("time", { class: "meta", datetime: item.at }, timeOf(item.at)));
  return article;
}

/** Who speaks is shown by the side; it is told to those who don't see it. */
const said = (name: string): Element => el("span", { class: "sr" }, `${name} said:`);

function choices(asked: Asked, onDecide: LogActions["onDecide"]): Element {
  if (asked.status !== "pending") return el("div", { class: "outcome" }, outcome(asked));
  const button = (label: string, decision: "approve" | "reject", style: string) => {
    const made = el("button", { class: `choice ${style}`, type: "button" }, label);
    made.addEventListener("click", () => {
      const both = [...(made.parentElement?.querySelectorAll("button") ?? [])];
      for (const each of both) each.disabled = true;
      void onDecide(asked.approval_id, decision).finally(() => {
        for (const each of both) each.disabled = false;
      });
    });
    return made;
  };
  return el(
    "div",
    { class: "choices", role: "group", "aria-label": "Your decision" },
    button("Approve", "approve", "yes"),
    button("Reject", "reject", "no"),
  );
}

function outcome({ status, decision }: Asked): string {
  if (status === "withdrawn") return "No longer needed";
  return ["no", "false", "reject", "ignore"].includes(decision ?? "") ? "Rejected" : "Approved";
}

function unsentElement(message: Unsent, onResend: LogActions["onResend"]): Element {
  const meta = el("div", { class: "meta" }, message.failed ? "Not sent. " : "Sending…");
  if (message.failed) {
    const again = el("button", { class: "again", type: "button" }, "Try again");
    again.addEventListener("click", () => onResend(message));
    meta.append(again);
  }
  return el("div", { class: "item person unsent" }, said("You"), el("div", { class: "text" }, message.text), meta);
}

const timeOf = (at: string): string => new Date(at).toLocaleTimeString([], { hour: "numeric", minute: "2-digit" });

function dayOf(at: string): string {
  const day = new Date(at);
  const today = new Date();
  if (day.toDateString() === today.toDateString()) return "Today";
  const sameYear = day.getFullYear() === today.getFullYear();
  return day.toLocaleDateString([], {
    ...{ weekday: "short", day: "numeric", month: "long" },
    ...(!sameYear && { year: "numeric" }),
  });
}
