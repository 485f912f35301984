// `perdure schedules` and `perdure contacts`, as they are typed.
import { expect, it } from "vitest";
import type { Open } from "../../src/cli/open.js";
import { runProgram } from "../../src/cli/program.js";
import { withSchedules } from "../helpers/schedules.js";

it("schedules are listed, shown, previewed, paused, resumed, run and backfilled; contacts are listed, and left alone", async () => {
  await withSchedules({}, async (t) => {
    await t.person("ana", 1, { attributes: { name: "Ana" }, opt_in: { source: "form" } });
    const id = await t.schedule({ name: "news", when: { cron: "0 9 * * *" }, instruction: "Hello {{name}}" });
    const said = async (...args: string[]): Promise<string> => {
      const lines: string[] = [];
      const print = { line: (text: string) => void lines.push(text), note: () => {}, json: args.includes("--json") };
      const opened = { deps: t.deps, retention: null, owner: "cli", leaseMs: 1_000, moveAfterMs: 0 };
      const open = {
        parts: (_at: unknown, _needs: unknown, work: (...all: unknown[]) => Promise<unknown>) => work(opened, print),
      };
      await runProgram(args, "0", { serving: {} as never, setUp: {} as never, open: open as unknown as Open });
      return lines.join("\n");
    };
    expect(await said("schedules", "ls")).toMatch(
      /^NAME +STATUS +KIND +NEXT[^]*news +active +cron +\w+ \d+ \w+ \d+, 09:00 \(UTC\)/,
    );
    expect(await said("schedules", "preview", "news", "--times", "2", "--recipients", "5")).toMatch(
      /09:00 \(UTC\)[^]*ana +true/,
    );
    expect(await said("schedules", "pause", id)).toBe('Schedule "news" is paused.');
    await expect(said("schedules", "run", "news")).rejects.toThrow("is paused: resume it first");
    expect(await said("schedules", "resume", "news")).toContain('Schedule "news" is active; it comes next');
    expect(await said("schedules", "run", "news")).toContain("comes now");
    await t.settle();
    expect(await t.texts(2, 1)).toEqual(["you said hello", "Hello Ana"]);
    const stretch = ["--from", "2020-01-01T00:00:00Z", "--to", "2020-01-01T23:00:00Z"];
    expect(JSON.parse(await said("schedules", "backfill", "news", ...stretch, "--json"))).toMatchObject({
      times: ["2020-01-01T09:00:00.000Z"],
    });
    await expect(said("schedules", "backfill", "news", "--from", "yesterday", "--to", "now")).rejects.toThrow(
      "--from must be an instant",
    );
    expect(await said("schedules", "show", "news")).toMatch(
      /instruction +Hello \{\{name\}\}[^]*now +fired[^]*produced/,
    );
    await expect(said("schedules", "show", "olds")).rejects.toThrow('There is no schedule "olds"');
    expect(await said("contacts", "ls")).toMatch(/^KEY[^]*ana/);
    expect(await said("contacts", "suppress", "ana", "--marketing")).toBe(
      'Nothing for marketing goes to "ana" any more.',
    );
    expect((await t.ask("GET", "/v1/suppressions")).json).toMatchObject([
      { contact_key: "ana", scope: "marketing", cause: "api" },
    ]);
  });
});
