// What tells when the queue will be done: what is used of the rate limits and when it leaves their windows, how the last
// batches went, when the last back-off ends. Straight from the indexes, no further than the windows and `leases`.
// parameters: interval_ms (window of the rate limit), minute_ms (window of the limits that the provider names), good_for_ms
//             (so long its word counts), lately_ms, leases (the most ended ones that are looked at), now
// rows:       one: held_requests, held_tokens (of open leases), sent and sent_of_minute [{at (epoch ms), requests, tokens}]
//             (a twentieth of the window each), found_requests, found_tokens (per minute, by the provider), token_factor,
//             query_at (the last search), ended [[began, ended (epoch ms), jobs that ended in it]], last_due_at (the last end
//             of a back-off), in_force (the fingerprint of the settings in force; null = none yet)
// locks:      none
MATCH (c:QueueControl {name: 'embedding'})
WITH c, coalesce($now, datetime.realtime().epochMillis) AS now
WITH c, now, coalesce(c.found_at > now - $good_for_ms, false) AS found
CALL () {
  MATCH (l:EmbedLease) WHERE l.open = true
  RETURN coalesce(sum(l.requests), 0) AS held_requests, coalesce(sum(l.est_tokens), 0) AS held_tokens
}
CALL (now) {
  MATCH (l:EmbedLease) WHERE l.requested_at > now - $interval_ms
  WITH 20 * (now - l.requested_at) / $interval_ms AS slice, max(l.requested_at) AS at,
    coalesce(sum(l.requests), 0) AS requests, coalesce(sum(l.est_tokens), 0) AS tokens
  RETURN collect({at: at, requests: requests, tokens: tokens}) AS sent
}
CALL (now, found) {
  WITH now WHERE found
  MATCH (l:EmbedLease) WHERE l.requested_at > now - $minute_ms
  WITH 20 * (now - l.requested_at) / $minute_ms AS slice, max(l.requested_at) AS at,
    coalesce(sum(l.requests), 0) AS requests, coalesce(sum(l.est_tokens), 0) AS tokens
  RETURN collect({at: at, requests: requests, tokens: tokens}) AS sent_of_minute
}
CALL (now) {
  MATCH (l:EmbedLease) WHERE l.finished_at > now - $lately_ms
  WITH l ORDER BY l.finished_at DESC LIMIT $leases
  WITH l WHERE l.outcome = 'completed' AND l.jobs > 0
  RETURN collect([coalesce(l.started_at, l.leased_at), l.finished_at, coalesce(l.ended, l.jobs)]) AS ended
}
CALL (now) {
  UNWIND [9, 8, 7, 6, 5, 4, 3, 2, 1, 0] AS p
  CALL (p, now) {
    MATCH (j:EmbedJob) WHERE j.status = 'pending' AND j.priority = p AND j.available_at > now
    RETURN j.available_at AS at ORDER BY j.status DESC, j.priority DESC, j.available_at DESC LIMIT 1
  }
  RETURN max(at) AS last_due_at
}
RETURN held_requests, held_tokens, sent, sent_of_minute, CASE WHEN found THEN c.found_requests END AS found_requests,
  CASE WHEN found THEN c.found_tokens END AS found_tokens, coalesce(c.token_factor, 1.0) AS token_factor,
  c.query_at AS query_at, ended, last_due_at, c.in_force AS in_force
