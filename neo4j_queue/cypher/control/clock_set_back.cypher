// How far the server's clock stands before what it said earlier, by the indexes of the ended leases.
// parameters: now
// rows:       one: behind_ms (0 = it went on), now
// locks:      none
WITH coalesce($now, datetime.realtime().epochMillis) AS now
CALL (now) {
  MATCH (l:EmbedLease) WHERE l.finished_at > now
  RETURN max(l.finished_at) AS last
}
RETURN coalesce(last - now, 0) AS behind_ms, now
