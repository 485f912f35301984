// What the doors (HTTP, CLI) get: the parts commands need, and who is asking. Everything else is a function over it.
import type { GetAssistant } from "../assistants/cached.js";
import type { BodyReader } from "../checkpoint/body-reader.js";
import type { Gate } from "../core/access.js";
import type { ApprovalPolicy, Caller } from "../core/approval.js";
import type { Deps } from "../core/deps.js";
import type { FollowupLimits } from "../core/followup-limits.js";
import type { TenantId } from "../core/ids.js";
import type { PolicyOf } from "../core/policy.js";
import type { ThreadTtl } from "../core/thread-ttl.js";
import type { OnTouch } from "./adopt/on-touch.js";
import type { Accounts } from "./channel-accounts.js";
import type { AcceptRun } from "./commands/accept-run.js";
import type { Combiner } from "./commit.js";
import type { Graphs } from "./graphs.js";
import type { HeaderRules } from "./http-json.js";
import type { InboxNews } from "./inbox-news.js";
import type { Handover } from "./handover.js";
import type { OutreachLimits } from "../core/outreach-limits.js";
import type { Measures } from "./measures.js";
import type { Meters } from "../observe/meters.js";
import type { Reads } from "./reads.js";
import type { Streams } from "./stream/streams.js";
import type { TenantStore } from "./tenant-store.js";
import type { ThreadNews } from "./thread-news.js";

export type Engine = Readonly<{
  deps: Deps;
  graphs: Graphs;
  /** Who is let in, and what they may; null: everybody is, and may do everything. */
  gate: Gate | null;
  /** Whose requests are, where everybody is let in. */
  tenantOf(headers: Headers): Promise<TenantId>;
  /** Who asks, where what stands in front of the API says so; null: nothing does. */
  callerOf: ((headers: Headers) => Caller) | null;
  /** Which request headers graphs find in their configuration, where that isn't the default. */
  configurableHeaders: HeaderRules;
  /** What questions of a graph come with, unless they say so themselves. */
  approvals(graphId: string): ApprovalPolicy;
  /** How long threads that clients make are kept, where they don't say so; null: for ever. */
  threadTtl: ThreadTtl | null;
  /** How the runs of a graph are treated when something goes wrong. */
  policyOf: PolicyOf;
  /** Reads what checkpoints name; one per process, for its cache. */
  bodyReader: BodyReader;
  /** Accounts of channels, and what speaks for them. */
  accounts: Accounts;
  /** How much of what schedules want to say goes out. */
  outreach: OutreachLimits;
  /** What may be promised for later. */
  followups: FollowupLimits;
  /** Why a completion webhook may not go there; undefined: it may. */
  webhookRefusal(url: string): string | undefined;
  /** Wakes who reads the inbox of a web conversation. */
  inboxNews: InboxNews;
  /** What graphs keep beside threads (`runtime.store`), and requests read and write. */
  storeOf(tenantId: TenantId): TenantStore;
  /** Whether what only suites of tests may ask for is served. */
  testRoutes: boolean;
  /** Wakes who follows a thread. */
  threadNews: ThreadNews;
  /** What those share who read streams. */
  streams: Streams;
  assistant: GetAssistant;
  acceptRun: AcceptRun;
  reads: Reads;
  handover: Handover;
  /** What this process counts for operators. */
  meters: Meters;
  /** What operators watch of the whole installation. */
  measures: Measures;
  /** Set once this process has done what comes before the first request. */
  readiness: { prepared: boolean };
  edits: EditSettings;
  /** Where threads come from that aren't here yet; null: from nowhere. */
  onTouch: OnTouch | null;
}>;

/** How edits of a state, short runs made by this process, are held and committed. */
export type EditSettings = Readonly<{
  /** Unique per process start; the combiner's own. */
  owner: string;
  combiner: Combiner;
  leaseMs: number;
  moveAfterMs: number;
}>;
