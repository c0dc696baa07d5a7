// Closes leases whose lock has expired. A started one may have sent its request until the lock ran out, and keeps
// counting against the rate budget from then; one that never started counts nothing.
// parameters: now
// rows:       token, owner, started, requests, est_tokens (as reserved)
// locks:      leases in the order of their tokens
MATCH (l:EmbedLease) WHERE l.open = true AND l.lock_until < coalesce($now, datetime.realtime().epochMillis)
WITH l ORDER BY l.token
SET l._lock = true
WITH l, coalesce($now, datetime.realtime().epochMillis) AS now WHERE l.open = true AND l.lock_until < now
SET l.finished_at = now, l.outcome = 'expired',
  l.requested_at = CASE WHEN l.started_at IS NULL THEN null ELSE l.lock_until END
REMOVE l.open, l.texts
RETURN l.token AS token, l.owner AS owner, l.started_at IS NOT NULL AS started,
  coalesce(l.requests, 0) AS requests, coalesce(l.est_tokens, 0) AS est_tokens
