// The bubble: a button with what is unread, and a dialog with the conversation. It is the page's guest: it takes the focus only when it is
// opened, gives it back when it is closed, and holds it only where it covers the whole page.
import type { Connection } from "./client.js";
import type { Shown, Unsent } from "./conversation.js";
import { el, icon } from "./dom.js";
import { createLog } from "./log.js";
import { CSS as SHEET } from "./styles.js";
import type { Item } from "./wire.js";

export type Look = Readonly<{ title: string; greeting: string; accent: string | undefined }>;

export type ViewActions = Readonly<{
  onOpen: () => void;
  onWrite: (text: string) => void;
  onResend: (message: Unsent) => void;
  onDecide: (approvalId: string, decision: "approve" | "reject") => Promise<string | undefined>;
  onEarlier: () => Promise<unknown>;
}>;

const BUBBLE = "M21 12a8.5 8.5 0 0 1-12.3 7.6L3.5 21l1.5-5A8.5 8.5 0 1 1 21 12Z";
const CROSS = "M6 6l12 12M18 6 6 18";
const ARROW = "M12 19V5M5.5 11.5 12 5l6.5 6.5";
const COVERS = "(max-width: 480px)";
/** As far from the end it is still followed. */
const NEAR_PX = 80;
const MAX_TEXT = 10_000;

export function createView(look: Look, actions: ViewActions) {
  const { title, greeting } = look;
  const heading = el("h2", { id: "title" }, title);
  const close = el("button", { class: "close", type: "button", "aria-label": "Close chat" }, icon(CROSS));
  const earlier = el("button", { class: "earlier", type: "button", hidden: true }, "Show earlier messages");
  const hello = el("div", { class: "greeting" }, greeting);
  const log = el("div", { class: "log", role: "log", "aria-live": "polite", "aria-label": "Messages", tabindex: "0" });
  const dots = el("div", { class: "typing", role: "status" });
  const notice = el("div", { class: "notice", role: "status", hidden: true });
  const input = el("textarea", {
    ...{ id: "input", rows: "1", placeholder: "Write a message…", maxlength: String(MAX_TEXT) },
    ...{ autocomplete: "off", enterkeyhint: "send" },
  });
  const send = el("button", { class: "send", type: "submit", "aria-label": "Send", disabled: true }, icon(ARROW));
  const form = el("form", {}, el("label", { class: "sr", for: "input" }, "Your message"), input, send);
  const panel = el(
    "div",
    { class: "panel", role: "dialog", id: "panel", "aria-labelledby": "title", hidden: true },
    ...[el("div", { class: "head" }, heading, close), log, dots, notice, form],
  );
  const badge = el("span", { class: "badge", "aria-hidden": "true", hidden: true });
  const launcher = el(
    "button",
    { class: "launcher", type: "button", "aria-expanded": "false", "aria-controls": "panel" },
    ...[icon(BUBBLE), badge],
  );
  const announced = el("div", { class: "sr", role: "status" });
  const root = el("div", { class: "root" }, panel, launcher, announced);
  const covers = matchMedia(COVERS);
  const items = createLog(log, [earlier, hello], title, {
    async onDecide(approvalId, decision) {
      // At once: the buttons go, and whoever has the focus on one would be nowhere until the answer has come.
      input.focus();
      say(await actions.onDecide(approvalId, decision));
    },
    onResend: actions.onResend,
  });
  let unread = 0;

  const isOpen = (): boolean => !panel.hidden;

  function open(): void {
    panel.hidden = false;
    // It covers the page, so that there is nothing else to get to.
    panel.setAttribute("aria-modal", String(covers.matches));
    root.classList.add("open");
    label();
    toEnd();
    input.focus();
    actions.onOpen();
  }

  function shut(): void {
    panel.hidden = true;
    root.classList.remove("open");
    label();
    launcher.focus();
  }

  function label(): void {
    const count = isOpen() ? 0 : unread;
    const messages = count === 1 ? "1 unread message" : `${count} unread messages`;
    launcher.setAttribute("aria-expanded", String(isOpen()));
    launcher.setAttribute("aria-label", isOpen() ? "Close chat" : count === 0 ? "Open chat" : `Open chat, ${messages}`);
    launcher.firstElementChild?.replaceWith(icon(isOpen() ? CROSS : BUBBLE));
    badge.hidden = count === 0;
    badge.textContent = count > 99 ? "99+" : String(count);
  }

  function toEnd(): void {
    log.scrollTop = log.scrollHeight;
  }

  function say(text: string | undefined): void {
    notice.hidden = text === undefined;
    notice.textContent = text ?? "";
  }

  function submit(): void {
    const text = input.value.trim();
    if (text === "") return;
    input.value = "";
    grow();
    actions.onWrite(text);
    toEnd();
  }

  function grow(): void {
    input.style.setProperty("height", "auto");
    input.style.setProperty("height", `${input.scrollHeight + 2}px`);
    send.disabled = input.value.trim() === "";
  }

  launcher.addEventListener("click", () => (isOpen() ? shut() : open()));
  close.addEventListener("click", shut);
  earlier.addEventListener("click", () => {
    // What comes is put before what one reads, which stays where it is, and isn't news to be told.
    const before = log.scrollHeight - log.scrollTop;
    log.setAttribute("aria-live", "off");
    void actions.onEarlier().finally(() => {
      log.scrollTop = log.scrollHeight - before;
      requestAnimationFrame(() => log.setAttribute("aria-live", "polite"));
    });
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  input.addEventListener("input", grow);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      shut();
    }
    if (event.key === "Tab" && covers.matches) turnAround(event, panel);
  });

  return {
    root,
    isOpen,
    say,
    mount(): void {
      const host = el("div", { "data-perdure-widget": true });
      const shadow = host.attachShadow({ mode: "open" });
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(SHEET);
      shadow.adoptedStyleSheets = [sheet];
      shadow.append(root);
      document.body.append(host);
      paint(root, look.accent);
      label();
    },
    show(shown: Shown): void {
      const follows = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_PX;
      earlier.hidden = !shown.hasEarlier;
      hello.hidden = greeting === "" || shown.hasEarlier;
      items.show(shown);
      const dotted = dots.childElementCount > 0;
      if (shown.typing !== dotted) {
        const three = [0, 1, 2].map(() => el("span", { class: "dot", "aria-hidden": "true" }));
        dots.replaceChildren(...(shown.typing ? [...three, el("span", { class: "sr" }, `${title} is typing`)] : []));
      }
      unread = shown.status.unread;
      label();
      if (follows) toEnd();
    },
    /** The log tells it where it is open; where it isn't, somebody who sees no badge is told as well. */
    tell(fresh: readonly Item[]): void {
      if (isOpen() || !fresh.some(({ author }) => author === "agent")) return;
      announced.textContent = `New message from ${title}`;
    },
    connection(state: Connection): void {
      if (state === "ended") return say("This chat is not available. Reload the page to try again.");
      if (state !== "away") return say(undefined);
      say(navigator.onLine ? "Connecting…" : "You are offline. What you write is sent when you are back.");
    },
  };
}

/** From the last to the first and back. */
function turnAround(event: KeyboardEvent, panel: HTMLElement): void {
  const all = [...panel.querySelectorAll<HTMLElement>("button, textarea, a[href], [tabindex]")];
  const reached = all.filter((each) => !each.hasAttribute("disabled") && each.offsetParent !== null);
  const [first, last] = [reached.at(0), reached.at(-1)];
  const active = (panel.getRootNode() as ShadowRoot).activeElement;
  const target = event.shiftKey && active === first ? last : !event.shiftKey && active === last ? first : undefined;
  if (target === undefined) return;
  event.preventDefault();
  target.focus();
}

/** The page's colour, and black or white on it, whichever can be read. */
function paint(root: HTMLElement, accent: string | undefined): void {
  if (accent === undefined || !CSS.supports("color", accent)) return;
  root.style.setProperty("--accent", accent);
  const probe = el("span", { hidden: true });
  probe.style.setProperty("color", accent);
  root.append(probe);
  const [r = 0, g = 0, b = 0] = (getComputedStyle(probe).color.match(/[\d.]+/g) ?? []).map(
    (part) => Number(part) / 255,
  );
  probe.remove();
  const [lr, lg, lb] = [r, g, b].map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  const luminance = 0.2126 * (lr ?? 0) + 0.7152 * (lg ?? 0) + 0.0722 * (lb ?? 0);
  root.style.setProperty("--on-accent", luminance > 0.18 ? "#14171f" : "#fff");
}
