// Server-sent events as they come, without a client that makes up for what is missing.

export type SseEvent = Readonly<{ id: string; event: string; data: unknown }>;

/** Events until the answer ends; breaks off with the connection's error when it is cut. */
export async function* sseEvents(url: string, init: RequestInit = {}): AsyncGenerator<SseEvent> {
  const response = await fetch(url, init);
  if (!response.ok || response.body === null) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  let text = "";
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const frames = (text + piece).split("\n\n");
    text = frames.pop() ?? "";
    for (const frame of frames) {
      const data = /^data: (.*)$/m.exec(frame)?.[1];
      if (data === undefined) continue;
      const [, id = ""] = /^id: (.*)$/m.exec(frame) ?? [];
      const [, event = ""] = /^event: (.*)$/m.exec(frame) ?? [];
      yield { id, event, data: JSON.parse(data) as unknown };
    }
  }
}
