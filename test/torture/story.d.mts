import type { Checkpoint, CheckpointMetadata, ChannelVersions, PendingWrite } from "@langchain/langgraph-checkpoint";

export const STEPS: number;
export const LARGE_FROM_BYTES: number;
export const WRITE_TASK: string;
export function valuesOf(step: number): Record<string, unknown>;
export function versionsOf(step: number): ChannelVersions;
export function checkpointOf(
  ids: readonly string[],
  step: number,
): { checkpoint: Checkpoint; metadata: CheckpointMetadata; fresh: ChannelVersions };
export function writesOf(step: number): PendingWrite[];
