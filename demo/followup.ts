// The last chapter: an agent promises to get back to somebody on another day, and does. The clock is the test kit's, and so is Telegram:
// real HTTP, to a stand-in that counts what each chat received.
import { createTestEngine, startTelegram } from "perdure/testing";
import { chapter, promise, tell } from "./story.js";

const CHAT = { chatId: 7 };
const OTHER_CHAT = { chatId: 8 };

/** Chapter 8. */
export async function followUp(): Promise<void> {
  chapter("8. A follow-up: asked on Telegram, answered there next Tuesday");
  delete process.env["ANTHROPIC_API_KEY"];
  const file = new URL("../graphs/concierge.ts", import.meta.url).href;
  const { agent } = (await import(file)) as Readonly<{ agent: unknown }>;
  const telegram = await startTelegram();
  const engine = await createTestEngine({ graphs: { concierge: agent } });
  try {
    await engine.connect(telegram, { assistant: "concierge" });
    const said = (chat: typeof CHAT) => telegram.messages(chat.chatId).map(({ text }) => text);
    const question = "Please get back to me on Tuesday about the late check-out";
    tell(`chat 7: ${question}`);
    await telegram.says(question, CHAT);
    await engine.idle();
    tell(`concierge: ${said(CHAT).at(-1) ?? "nothing"}`);
    promise(
      "it promises a Tuesday, and waits as a row",
      /on Tue .* or a little later/.test(said(CHAT)[0] ?? ""),
      said(CHAT),
    );

    await telegram.says("Good evening", OTHER_CHAT);
    await engine.idle();
    await engine.clock.advance("8d");
    tell(`the clock is moved: it is ${(await engine.clock.now()).toUTCString()}`);
    tell(`concierge: ${said(CHAT).at(-1) ?? "nothing"}`);
    promise("it came back to the chat where it was asked, once", said(CHAT).length === 2, said(CHAT));
    await engine.clock.advance("6w");
    promise("six weeks later nobody has heard of it again", said(CHAT).length === 2 && said(OTHER_CHAT).length === 1, {
      ...{ asked: said(CHAT), other: said(OTHER_CHAT) },
    });
  } finally {
    await engine.close();
    await telegram.close();
  }
}
