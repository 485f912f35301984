// What a resume needs at least, and so every record of a run has.
export const RECORD_FIELDS = [
  ...[
    "run_id",
    "tenant_id",
    "thread_id",
    "assistant_id",
    "agent_version",
    "model",
    "current_step",
    "status",
    "attempt",
  ],
  ...["messages_uri", "tool_results_uri", "plan", "pending_approval", "cost_so_far", "token_so_far", "budget", "seed"],
  ...["result_uri", "trace_id", "error", "created_at", "updated_at"],
];
