// Lets the lock of a lease that is known to be an orphan run out now, so that recovery takes its jobs back.
// parameters: token, now
// rows:       token; none when the lease has ended meanwhile
// locks:      the lease, then its jobs in the order of their ids
// The jobs of a started lease have its very `lock_until`: they are found by the index of the locks.
MATCH (l:EmbedLease {token: $token})
SET l._lock = true
WITH l, coalesce($now, datetime.realtime().epochMillis) AS now, l.lock_until AS until
WHERE l.open = true AND l.started_at IS NOT NULL
SET l.lock_until = CASE WHEN until < now THEN until ELSE now - 1 END
WITH l, now, until
CALL (l, now, until) {
  MATCH (j:EmbedJob)
  WHERE j.status = 'processing' AND j.lock_until = until AND j.lease_token = l.token
  WITH j, l, now ORDER BY j.id
  SET j._lock = true
  WITH j, l, now WHERE j.status = 'processing' AND j.lease_token = l.token
  SET j.lock_until = l.lock_until
  RETURN count(j) AS expired
}
RETURN l.token AS token
