// Asks for further provider requests of a running lease (a refused batch is cut into parts): granted only as the
// rate budget allows, and booked on the lease.
// parameters: token, requests, limit (per window; null = unlimited), interval_ms, now
// rows:       one: granted (requests); none when the lease is not ours any more
// locks:      control, then the lease
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
WITH c, coalesce($now, datetime.realtime().epochMillis) AS now
MATCH (mine:EmbedLease {token: $token})
SET mine._lock = true
WITH c, now, mine WHERE mine.open = true
CALL (now) {
  MATCH (l:EmbedLease) WHERE l.requested_at > now - $interval_ms
  RETURN coalesce(sum(l.requests), 0) AS sent
}
CALL () {
  MATCH (l:EmbedLease) WHERE l.open = true
  RETURN coalesce(sum(l.requests), 0) AS held
}
WITH c, now, mine, CASE
  WHEN c.halted OR c.paused_until > now THEN 0
  WHEN $limit IS NULL OR $limit - sent - held >= $requests THEN $requests
  ELSE 0 END AS granted
SET mine.requests = mine.requests + granted
RETURN granted
