// Records a verdict against jobs: one attempt counted, then back to `pending` after a delay, or `failed`. A job that got
// its verdict kills no worker: its crashes are forgotten.
// parameters: token, now, rows [{id, reason (null = try again), delay_ms, error, error_category, error_type,
//             error_status, error_stack, max_batch (null = none), met (the entry of the history)}], kept (entries of the
//             history: the last ones)
// packed:     id, attempts, available_at of each job that took the verdict
// locks:      the lease, then its jobs in the order given
MATCH (l:EmbedLease {token: $token})
SET l._lock = true
WITH l, coalesce($now, datetime.realtime().epochMillis) AS now
UNWIND $rows AS row
MATCH (j:EmbedJob {id: row.id})
SET j._lock = true
WITH l, now, row, j WHERE j.status = 'processing' AND j.lease_token = $token AND j.started_at IS NOT NULL
SET j.attempts = j.attempts + 1, j.crashes = 0, j.error = row.error, j.error_category = row.error_category,
  j.error_type = row.error_type, j.error_status = row.error_status, j.error_stack = row.error_stack,
  j.failure_reason = row.reason, j.max_batch = row.max_batch, j.worker = l.worker,
  j.history = (coalesce(j.history, [])
    + (toString(now) + '\t' + replace(coalesce(l.worker, ''), '\t', ' ') + '\t' + row.met))[-$kept..],
  j.status = CASE WHEN row.reason IS NULL THEN 'pending' ELSE 'failed' END,
  j.available_at = CASE WHEN row.reason IS NULL THEN now + row.delay_ms ELSE j.available_at END,
  j.processed_at = CASE WHEN row.reason IS NULL THEN null ELSE now END
FOREACH (_ IN CASE WHEN row.reason IS NULL THEN [] ELSE [1] END | SET j:EmbedFailed)
REMOVE j.lock_owner, j.lock_until, j.lease_token, j.started_at, j.leased_at, j.crashed_at
RETURN collect({id: j.id, attempts: j.attempts, available_at: j.available_at}) AS rows
