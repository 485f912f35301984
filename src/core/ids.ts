// Branded ids: a thread's id can't be handed in where a run's is wanted.
declare const brand: unique symbol;
type Id<Name extends string> = string & { readonly [brand]: Name };

export type TenantId = Id<"tenant">;
export type ThreadId = Id<"thread">;
export type RunId = Id<"run">;
export type AssistantId = Id<"assistant">;
export type ApprovalId = Id<"approval">;
export type TimerId = Id<"timer">;
export type PackId = Id<"pack">;
export type ChannelAccountId = Id<"channel_account">;
export type ConversationId = Id<"conversation">;
export type DeliveryId = Id<"delivery">;
export type FollowupId = Id<"followup">;
export type ScheduleId = Id<"schedule">;
export type CronId = Id<"cron">;
export type ContactId = Id<"contact">;
export type SuppressionId = Id<"suppression">;
export type ApiKeyId = Id<"api_key">;

/** The tenant of an installation that has only one. */
export const DEFAULT_TENANT = "default" as TenantId;

/** Makes ids: UUIDv7, so that they sort by the time they were made. */
export type Ids = Readonly<{ next<T extends string>(): T }>;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** True for any RFC 9562 UUID, whatever its version. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}
