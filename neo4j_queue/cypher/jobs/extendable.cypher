// Which leases are still held, and which of them need a longer lock soon.
// parameters: tokens, least_ms (a lock that lasts longer is long enough), now
// rows:       token, jobs (not settled yet), due; a token without a row is lost
// locks:      none
UNWIND $tokens AS token
MATCH (l:EmbedLease {token: token})
WHERE l.open = true AND l.started_at IS NOT NULL
RETURN token, l.left AS jobs,
  l.lock_until < coalesce($now, datetime.realtime().epochMillis) + $least_ms AS due
