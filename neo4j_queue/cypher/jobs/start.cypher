// Begins the work of one lease, once: the second delivery of a message finds the lease started. The same call may
// repeat itself, by its `start_id`: it does when the answer to its commit was lost.
// parameters: token, ids, lock_ms, worker, start_id, mark (fingerprint of the worker's settings; null = not compared),
//             tariff {provider, model, price (per million tokens)}, now
// rows:       at most one: blocked ('other settings', 'halted', 'paused', 'expired' or null), jobs [{id, entity_uid,
//             model, version, attempts, max_attempts, est_tokens, max_batch}], probe (is the lease one?); no row: the lease is
//             not open, or started already
// locks:      the lease, then its jobs in the order given
MATCH (l:EmbedLease {token: $token})
SET l._lock = true
WITH l WHERE l.open = true AND (l.started_at IS NULL OR l.start_id = $start_id)
MATCH (c:QueueControl {name: 'embedding'})
WITH l, c, coalesce($now, datetime.realtime().epochMillis) AS now
WITH l, now, CASE
  WHEN c.in_force <> $mark THEN 'other settings'
  WHEN c.halted THEN 'halted'
  WHEN c.paused_until > now THEN 'paused'
  // Leased before the trouble began: only a probe may find out whether it is over.
  WHEN c.trouble IN ['outage', 'quota'] AND l.probe IS NULL THEN 'paused'
  // Its place and its share of the budget may be another lease's by now.
  WHEN l.started_at IS NULL AND l.lock_until < now THEN 'expired' END AS blocked
CALL (l, now, blocked) {
  WITH l, now WHERE blocked IS NULL
  SET l.started_at = now, l.start_id = $start_id, l.worker = $worker, l.lock_until = now + $lock_ms, l += $tariff
  WITH now
  UNWIND $ids AS id
  MATCH (j:EmbedJob {id: id})
  SET j._lock = true
  WITH now, j WHERE j.status = 'processing' AND j.lease_token = $token
  SET j.started_at = now, j.lock_until = now + $lock_ms
  RETURN collect(j {.id, .entity_uid, .model, .version, .attempts, .max_attempts, .est_tokens, .max_batch}) AS jobs
}
RETURN blocked, jobs, coalesce(l.probe, false) AS probe
