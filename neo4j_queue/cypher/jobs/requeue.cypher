// Queues ended jobs again as if they were new, and raises priorities; what is not so under the lock stays.
// parameters: rows [{row, id, priority, force, est_tokens}], max_attempts, now
// packed:     row, again (queued again?) of each job; no row, or null: the clean-up has removed it meanwhile
// locks:      jobs in the order of `rows`
UNWIND $rows AS row
MATCH (j:EmbedJob {id: row.id})
SET j._lock = true
WITH row, j, coalesce($now, datetime.realtime().epochMillis) AS now,
  j.status = 'failed' OR (row.force AND j.status = 'completed') AS again
SET j.priority = CASE WHEN row.priority > j.priority THEN row.priority ELSE j.priority END
FOREACH (_ IN CASE WHEN again THEN [1] ELSE [] END |
  SET j.status = 'pending', j.available_at = now, j.attempts = 0, j.max_attempts = $max_attempts, j.crashes = 0,
    j.est_tokens = row.est_tokens
  REMOVE j.processed_at, j.outcome, j.failure_reason, j.error, j.error_category, j.error_type, j.error_status,
    j.error_stack, j.lease_token, j.leased_at, j.started_at, j.lock_owner, j.lock_until)
RETURN collect({row: row.row, again: again}) AS rows
