// The receiver: asks channels for what has come, where no webhook reaches us. One process at a time asks for an account; what comes is
// stored before the channel hears that it was taken.
import type { Deps } from "../../core/deps.js";
import { type AccountRow, claimPolling, setCursor } from "../../delivery/accounts.js";
import { receiveInbound } from "../commands/receive-inbound.js";
import type { Engine } from "../engine.js";
import { createLoop, type Loop } from "./loop.js";

/** Longer than a poll waits. */
const CLAIM_MS = 90_000;
const POLL_TIMEOUT_MS = 60_000;
const AFTER_FAILURE_MS = 5_000;

export function createReceiver(engine: Engine, options: Readonly<{ owner: string; pollMs: number }>): Loop {
  const { deps } = engine;
  const polls = new Map<string, Promise<void>>();
  const loop = createLoop(deps, {
    name: "receiver",
    pollMs: options.pollMs,
    tick: async (stopping) => {
      const accounts = await claimPolling(deps.db, { owner: options.owner, forMs: CLAIM_MS });
      for (const row of accounts) {
        if (polls.has(row.channelAccountId) || stopping.aborted) continue;
        const ended = pollOne(engine, row, stopping).finally(() => {
          polls.delete(row.channelAccountId);
          loop.wake();
        });
        polls.set(row.channelAccountId, ended);
      }
      return 0;
    },
  });
  return {
    ...loop,
    async stop() {
      await loop.stop();
      await Promise.all(polls.values());
    },
  };
}

/** Never rejects. */
async function pollOne(engine: Engine, row: AccountRow, over: AbortSignal): Promise<void> {
  const { deps } = engine;
  try {
    const opened = engine.accounts.opened(row);
    if (opened.adapter.poll === undefined) return;
    const signal = AbortSignal.any([over, AbortSignal.timeout(POLL_TIMEOUT_MS)]);
    const { events, cursor } = await opened.adapter.poll(opened.account, row.cursor, signal);
    await receiveInbound(engine, opened, events);
    await setCursor(deps.db, row, cursor);
  } catch (error) {
    if (over.aborted) return;
    await failed(deps, row, error, over);
  }
}

async function failed(deps: Deps, row: AccountRow, error: unknown, over: AbortSignal): Promise<void> {
  const code = String((error as { code?: unknown }).code ?? "failed");
  deps.log.warn({ channel_account_id: row.channelAccountId, code }, "a channel can't be polled, trying again");
  await deps.clock.sleep(AFTER_FAILURE_MS, over);
}
