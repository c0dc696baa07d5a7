// Opens a lease transaction: takes the control lock, then reads what the judgement needs.
// parameters: interval_ms (window of the rate budget), worker_ttl_ms (a silent worker counts that long), now
// rows:       one: now, seq, turn, halted, paused_until, slots, open_leases, spent_requests, spent_tokens
// locks:      the control node. Whoever holds it is the only one who leases. Lock order of the whole database:
//             control, leases, jobs by id, health.
// The budget is a fact of the leases, not a counter: an open lease holds its reservation, a finished one counts
// until its last request has left the window, a lease that was given back before a request counts nothing.
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
WITH c, coalesce($now, datetime.realtime().epochMillis) AS now
CALL (now) {
  MATCH (l:EmbedLease) WHERE l.open = true
  RETURN count(l) AS open_leases, coalesce(sum(l.requests), 0) AS held_requests,
    coalesce(sum(l.est_tokens), 0) AS held_tokens
}
CALL (now) {
  MATCH (l:EmbedLease) WHERE l.requested_at > now - $interval_ms
  RETURN coalesce(sum(l.requests), 0) AS sent_requests, coalesce(sum(l.est_tokens), 0) AS sent_tokens
}
CALL (now) {
  MATCH (w:EmbedWorker) WHERE w.seen_at > now - $worker_ttl_ms
  RETURN coalesce(sum(w.slots), 0) AS slots
}
RETURN now, c.seq AS seq, coalesce(c.turn, 0) AS turn, coalesce(c.halted, false) AS halted,
  c.paused_until AS paused_until, slots, open_leases,
  held_requests + sent_requests AS spent_requests, held_tokens + sent_tokens AS spent_tokens
