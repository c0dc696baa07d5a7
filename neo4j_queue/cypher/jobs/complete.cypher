// Ends jobs as `completed`.
// parameters: token, rows [{id, outcome}], now
// packed:     id, waited_ms (since it was queued; since it was created, if it was tried before) of each job that was
//             completed; a job without a row was lost
// locks:      the lease, then its jobs in the order given
MATCH (l:EmbedLease {token: $token})
SET l._lock = true
WITH l, coalesce($now, datetime.realtime().epochMillis) AS now
UNWIND $rows AS row
MATCH (j:EmbedJob {id: row.id})
SET j._lock = true
WITH l, now, row, j, CASE j.attempts WHEN 0 THEN j.available_at ELSE j.created_at END AS since
WHERE j.status = 'processing' AND j.lease_token = $token AND j.started_at IS NOT NULL
SET j:EmbedCompleted, j.status = 'completed', j.outcome = row.outcome, j.processed_at = now, j.worker = l.worker
REMOVE j.lock_owner, j.lock_until, j.lease_token, j.max_batch, j.error, j.error_category, j.error_type, j.error_status,
  j.error_stack
RETURN collect({id: j.id, waited_ms: now - since}) AS rows
