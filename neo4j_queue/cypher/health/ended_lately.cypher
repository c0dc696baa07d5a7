// Whether a batch lately ended jobs, in whatever way: the index of when leases ended, no further than the first.
// parameters: lately_ms, now
// rows:       one: found
// locks:      none
WITH coalesce($now, datetime.realtime().epochMillis) AS now
RETURN EXISTS {
  MATCH (l:EmbedLease) WHERE l.finished_at > now - $lately_ms AND l.ended > 0
  RETURN l
} AS found
