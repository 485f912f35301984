// A client that shows one graph or subgraph of a run is sent that one's events, and not those of what it starts.
import { expect, test } from "vitest";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { graph as nested } from "../contract/graphs/nested.js";

type Event = Readonly<{ id: string; event: string }>;

function eventsIn(text: string): Event[] {
  return [...text.matchAll(/^event: (.*)\ndata: .*\nid: (.*)$/gm)].map(([, event = "", id = ""]) => ({ id, event }));
}

const namesOf = (events: readonly Event[]): string[] =>
  [...new Set(events.map(({ event }) => event.replaceAll(/:[0-9a-f-]+/g, "")))].sort();

async function streamed(
  { app }: TestEngine,
  path: string,
  init: RequestInit = {},
): Promise<Response & { all: Event[] }> {
  const response = await app.request(path, init);
  expect(response.status).toBe(200);
  return Object.assign(response, { all: eventsIn(await response.text()) });
}

test("a run's own stream and a joined one are cut to the namespaces that were asked for", () =>
  withEngine({ graphs: { nested } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const body = { assistant_id: "nested", input: { seen: [] }, stream_mode: ["updates"], stream_subgraphs: true };
    const post = { method: "POST", body: JSON.stringify(body) };
    const root = await streamed(t, `/threads/${thread_id}/runs/stream?namespace=`, post);
    expect(namesOf(root.all)).toEqual(["metadata", "updates"]);
    const location = String(root.headers.get("location"));
    const whole = await streamed(t, location.replace(/&namespace=.*$/, ""));
    expect(namesOf(whole.all)).toEqual(["metadata", "updates", "updates|gp_two", "updates|gp_two|p_two"]);
    // Who comes back is told the same, under the same ids.
    expect((await streamed(t, location)).all).toEqual(root.all);
    const inner = whole.all.find(({ event }) => event.split("|").length === 3)?.event.replace("updates|", "") ?? "";
    for (const namespace of [inner, inner.replaceAll(/:[0-9a-f-]+/g, "")]) {
      const path = location.replace(/&namespace=.*$/, `&namespace=${encodeURIComponent(namespace)}`);
      expect(namesOf((await streamed(t, path)).all)).toEqual(["metadata", "updates|gp_two|p_two"]);
    }
    const two = await streamed(t, `${location}&namespace=gp_two`);
    expect(namesOf(two.all)).toEqual(["metadata", "updates", "updates|gp_two"]);
    const info = (await (await t.app.request("/info")).json()) as { flags: object };
    expect(info.flags).toMatchObject({ stream_namespaces: true });
  }));
