// Queues ended jobs again as if they were new, raises priorities, and ends the wait of those that are to be due now;
// what is not so under the lock stays.
// parameters: rows [{row, id, priority, force, due_now, est_tokens}], leave_failed (failed jobs stay),
//             keep_priority (only jobs that are queued again are raised), max_attempts, now
// packed:     row, again (queued again, or due sooner?) of each job; no row, or null: the clean-up has removed it
// locks:      jobs in the order of `rows`
OPTIONAL MATCH (c:QueueControl {name: 'embedding'})
WITH c.entities AS made_for
UNWIND $rows AS row
MATCH (j:EmbedJob {id: row.id})
SET j._lock = true
WITH made_for, row, j, coalesce($now, datetime.realtime().epochMillis) AS now
WITH made_for, row, j, now,
  (j.status = 'failed' AND NOT $leave_failed) OR (row.force AND j.status = 'completed') AS again,
  row.due_now AND j.status = 'pending' AND j.available_at > now AS hurried
SET j.priority = CASE
    WHEN row.priority > j.priority AND (again OR NOT $keep_priority) THEN row.priority
    ELSE j.priority
  END,
  j.available_at = CASE WHEN hurried THEN now ELSE j.available_at END
FOREACH (_ IN CASE WHEN again THEN [1] ELSE [] END |
  SET j.status = 'pending', j.available_at = now, j.attempts = 0, j.max_attempts = $max_attempts, j.crashes = 0,
    j.est_tokens = row.est_tokens, j.made_for = made_for
  REMOVE j.processed_at, j.outcome, j.failure_reason, j.error, j.error_category, j.error_type, j.error_status,
    j.error_stack, j.lease_token, j.leased_at, j.started_at, j.lock_owner, j.lock_until, j.crashed_at, j.max_batch, j.worker,
    j:EmbedCompleted, j:EmbedFailed)
WITH row, again OR hurried AS again
RETURN collect({row: row.row, again: again}) AS rows
