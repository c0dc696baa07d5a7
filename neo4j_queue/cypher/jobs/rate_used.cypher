// What has been used of the rate budget in the last interval, for people: no judgement follows from it.
// parameters: interval_ms (window of the rate budget), now
// rows:       one: requests, tokens, ends_at (when the oldest request of the window leaves it, epoch ms; null = none)
// locks:      none
WITH coalesce($now, datetime.realtime().epochMillis) AS now
CALL () {
  MATCH (l:EmbedLease) WHERE l.open = true
  RETURN coalesce(sum(l.requests), 0) AS held_requests, coalesce(sum(l.est_tokens), 0) AS held_tokens
}
CALL (now) {
  MATCH (l:EmbedLease) WHERE l.requested_at > now - $interval_ms
  RETURN coalesce(sum(l.requests), 0) AS requests, coalesce(sum(l.est_tokens), 0) AS tokens,
    min(l.requested_at) + $interval_ms AS ends_at
}
RETURN held_requests + requests AS requests, held_tokens + tokens AS tokens, ends_at
