// The page of the development chat: shows what /dev/chat/state says, and does what is pressed. What people and agents wrote only ever
// becomes text, never markup.

const POLL_MS = 700;
const MOVES = { "1h": "+1 hour", "1d": "+1 day", "6w": "+6 weeks" };
const GOOD = ["sent", "delivered", "read", "produced"];
const BAD = ["unknown", "failed", "dead", "expired", "suppressed", "parked"];

const byId = (id) => document.getElementById(id);
const shown = new Map();

/** Makes a part anew only when what it shows has changed: focus and what is being read stay where they are. */
function when(key, value, draw) {
  const json = JSON.stringify(value);
  if (shown.get(key) === json) return;
  shown.set(key, json);
  draw();
}

function element(name, { text, className, ...rest } = {}, ...children) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className !== undefined) made.className = className;
  Object.assign(made, rest);
  made.append(...children);
  return made;
}

const button = (text, action) => element("button", { text, type: "button", onclick: () => act(action) });

function tell(problem) {
  byId("trouble").hidden = problem === null;
  byId("trouble").textContent = problem ?? "";
}

async function ask(path, options) {
  const response = await fetch(`/dev/chat/${path}`, options);
  const said = await response.json();
  if (!response.ok) throw new Error(said.error);
  return said;
}

async function act(action) {
  document.body.setAttribute("aria-busy", "true");
  try {
    const headers = { "content-type": "application/json" };
    await ask("act", { method: "POST", headers, body: JSON.stringify(action) });
    refused = null;
  } catch (error) {
    refused = error.message;
  }
  document.body.removeAttribute("aria-busy");
  await look();
}

let refused = null;

async function look() {
  try {
    draw(await ask("state"));
    tell(refused);
  } catch (error) {
    tell(error.message === "Failed to fetch" ? "perdure dev doesn't answer" : error.message);
  }
}

function draw(state) {
  byId("now").textContent = new Date(state.now).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
  byId("now").dateTime = state.now;
  when("moves", state.movable, () => drawMoves(state.movable));
  when("assistants", [state.assistants, state.assistant], () => drawAssistants(state));
  for (const room of state.rooms) drawRoom(room);
  if (state.widget !== null) when("widget", state.widget.account, () => carryWidget(state.widget));
  when("followups", state.followups, () => byId("followups").replaceChildren(...state.followups.map(followupLine)));
  when("deliveries", state.deliveries, () => byId("deliveries").replaceChildren(...state.deliveries.map(deliveryLine)));
}

/** As on any page of a customer's. */
function carryWidget({ src, account }) {
  const script = element("script", { src, async: true });
  script.dataset.account = account;
  script.dataset.title = "Web widget";
  document.body.append(script);
}

function drawMoves(movable) {
  const moves = Object.entries(MOVES).map(([by, text]) => button(text, { do: "advance", by }));
  byId("moves").replaceChildren(...(movable ? moves : ["moves with perdure dev --movable-clock"]));
}

function drawAssistants({ assistants, assistant }) {
  const options = assistants.map(({ assistant_id: value, graph_id: text }) => element("option", { value, text }));
  byId("assistant").replaceChildren(...options);
  byId("assistant").value = assistant;
  byId("assistant").onchange = ({ target }) => act({ do: "assistant", assistant: target.value });
}

function drawRoom(room) {
  const { kind } = room;
  const card = byId(`room-${kind}`) ?? newRoom(room);
  when(`paused-${kind}`, room.paused, () => {
    const line = card.querySelector(".paused");
    line.hidden = room.paused === null;
    line.querySelector("span").textContent = room.paused === null ? "" : `Nothing goes out: ${room.paused}`;
  });
  when(`bubbles-${kind}`, room.bubbles, () => {
    const list = card.querySelector(".bubbles");
    const bubbles = room.bubbles.map((each) => bubbleOf(kind, each));
    const empty = element("li", {
      className: "empty",
      text: room.writes ? "Say hello." : "Answers arrive here, some seconds later.",
    });
    list.replaceChildren(...(bubbles.length > 0 ? bubbles : [empty]));
    list.scrollTop = list.scrollHeight;
  });
}

function newRoom({ kind, title, person, writes, troubles }) {
  const card = byId("room").content.firstElementChild.cloneNode(true);
  card.id = `room-${kind}`;
  card.classList.add(kind);
  card.querySelector("h2").textContent = title;
  card.querySelector(".person").textContent = person;
  card.querySelector(".paused button").onclick = () => act({ do: "resume", kind });
  const say = card.querySelector(".say");
  const { text } = say.elements;
  text.setAttribute("aria-label", `Message over ${title}`);
  if (!writes) text.placeholder = "Ask; the answer is mailed";
  say.onsubmit = (event) => {
    event.preventDefault();
    if (text.value.trim() === "") return;
    act({ do: "say", kind, text: text.value });
    text.value = "";
  };
  const next = card.querySelector(".next");
  const { trouble, times, mend } = next.elements;
  trouble.append(...troubles.map((value) => element("option", { value, text: value.replaceAll("_", " ") })));
  next.onsubmit = (event) => {
    event.preventDefault();
    act({ do: "trouble", kind, trouble: trouble.value, times: Number(times.value) || 1 });
  };
  mend.onclick = () => act({ do: "mend", kind });
  byId("rooms").append(card);
  return card;
}

function bubbleOf(kind, { from, text, buttons, status }) {
  const bubble = element("li", { className: from, text });
  if (buttons.length > 0) {
    const presses = buttons.map((label) => button(label, { do: "press", kind, label }));
    bubble.append(element("div", { className: "buttons" }, ...presses));
  }
  if (status !== null && status !== undefined) bubble.append(element("small", { text: status }));
  return bubble;
}

function line(title, state, soft, ...actions) {
  const tone = GOOD.includes(state) ? " good" : BAD.includes(state) ? " bad" : "";
  return element(
    "li",
    {},
    element("p", {}, element("span", { text: title }), element("span", { className: `state${tone}`, text: state })),
    element("p", { className: "soft", text: soft }),
    ...(actions.length > 0 ? [element("div", { className: "buttons" }, ...actions)] : []),
  );
}

function followupLine({ followup_id: followup, about, status, reason, mode, fires_at_local: at }) {
  const isOpen = status === "pending" || status === "running";
  const why = reason === null || reason === undefined ? "" : ` · ${reason}`;
  return line(
    about,
    status,
    `${mode} · ${at}${why}`,
    ...(isOpen ? [button("Cancel", { do: "cancel", followup })] : []),
  );
}

function deliveryLine({ delivery_id: delivery, channel, source_kind: source, status, attempts, error_code: code }) {
  const tries = attempts === 1 ? "1 try" : `${attempts} tries`;
  const actions = ["unknown", "failed"].includes(status)
    ? [
        button("Send again", { do: "resolve", delivery, as: "again" }),
        button("It arrived", { do: "resolve", delivery, as: "sent" }),
      ]
    : [];
  return line(`${channel} · ${source}`, status, `${tries}${code === null ? "" : ` · ${code}`}`, ...actions);
}

for (;;) {
  await look();
  await new Promise((resolve) => setTimeout(resolve, POLL_MS));
}
