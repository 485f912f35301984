// Votes on questions that more than one must answer alike (table `approval_votes`).
import type { Sql } from "../core/deps.js";
import type { ApprovalKey } from "./approvals.js";

export type VoteRow = Readonly<{ person: string; decision: string | null; answerSha256: Buffer; votedAt: Date }>;

/** Notes what somebody says; who says something else later has changed their mind. The question must be locked by its thread. */
export async function putVote(
  sql: Sql,
  vote: ApprovalKey & Readonly<{ person: string; decision: string | null; answerSha256: Buffer }>,
): Promise<void> {
  await sql.query(
    `insert into approval_votes (tenant_id, approval_id, person, decision, answer_sha256)
    values ($1, $2, $3, $4, $5)
    on conflict (tenant_id, approval_id, person)
    do update set decision = excluded.decision, answer_sha256 = excluded.answer_sha256, voted_at = clock_timestamp()`,
    [vote.tenantId, vote.approvalId, vote.person, vote.decision, vote.answerSha256],
  );
}

/** Everybody's last word on a question, in the order they spoke. */
export async function listVotes(sql: Sql, key: ApprovalKey): Promise<VoteRow[]> {
  const { rows } = await sql.query<VoteRow>(
    `select person, decision, answer_sha256 as "answerSha256", voted_at as "votedAt"
    from approval_votes
    where tenant_id = $1 and approval_id = $2
    order by voted_at, person`,
    [key.tenantId, key.approvalId],
  );
  return rows;
}
