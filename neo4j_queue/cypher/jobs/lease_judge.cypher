// Opens a lease transaction: takes the control lock, then reads what the judgement needs.
// parameters: interval_ms (window of the rate budget), minute_ms (window of the limits that the provider names),
//             good_for_ms (so long its word counts), worker_ttl_ms (a silent worker counts that long), starting_ms (a
//             start that began in time is committed by then), probe_ms (a probe has its answer by then), texts (are
//             they wanted?), mark (fingerprint of the caller's settings; null = not compared), now
// rows:       one: now, seq, turn, halted, paused_until, trouble, trouble_rounds, probing (a probe is open), slots,
//             open_leases (live ones), open_backfills (of them), spent_requests, spent_tokens, found_requests,
//             found_tokens (per minute, by the provider), minute_requests, minute_tokens (spent of them), token_factor,
//             refused_inputs, refused_inputs_at, slow_inputs, slow_inputs_at (of one request, see control/found_size),
//             query_at, texts (of each live lease that has any in hand), displaced (other settings are in force)
// locks:      the control node. Whoever holds it is the only one who leases. Lock order of the whole database:
//             control, leases, jobs by id, health.
// The budget is a fact of the leases, not a counter: an open lease holds its reservation, a finished one counts
// until its last request has left the window, a lease that was given back before a request counts nothing.
// An open lease that has run out holds no place, whether or not recovery has closed it. One that had started may have
// sent until then, and counts against the budget from that moment, as if it were closed.
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
WITH c, coalesce($now, datetime.realtime().epochMillis) AS now
CALL (now) {
  MATCH (l:EmbedLease) WHERE l.open = true
  WITH l, l.lock_until + CASE WHEN l.started_at IS NULL THEN $starting_ms ELSE 0 END > now AS live,
    CASE WHEN l.started_at IS NOT NULL THEN l.lock_until END AS sent_until
  WITH l, live, live OR coalesce(sent_until > now - $interval_ms, false) AS held,
    live OR coalesce(sent_until > now - $minute_ms, false) AS held_of_minute
  RETURN count(CASE WHEN live THEN 1 END) AS open_leases, count(CASE WHEN live THEN l.backfill END) AS open_backfills,
    count(CASE WHEN live AND coalesce(l.started_at, l.leased_at) > now - $probe_ms THEN l.probe END) > 0 AS probing,
    coalesce(sum(CASE WHEN held THEN l.requests END), 0) AS held_requests,
    coalesce(sum(CASE WHEN held THEN l.est_tokens END), 0) AS held_tokens,
    coalesce(sum(CASE WHEN held_of_minute THEN l.requests END), 0) AS held_requests_of_minute,
    coalesce(sum(CASE WHEN held_of_minute THEN l.est_tokens END), 0) AS held_tokens_of_minute,
    collect(CASE WHEN $texts AND l.lock_until > now THEN l.texts END) AS texts
}
CALL (now) {
  MATCH (l:EmbedLease) WHERE l.requested_at > now - $interval_ms
  RETURN coalesce(sum(l.requests), 0) AS sent_requests, coalesce(sum(l.est_tokens), 0) AS sent_tokens
}
WITH *, coalesce(c.found_at > now - $good_for_ms, false) AS found
CALL (now, found) {
  WITH now WHERE found
  MATCH (l:EmbedLease) WHERE l.requested_at > now - $minute_ms
  RETURN coalesce(sum(l.requests), 0) AS requests_of_minute, coalesce(sum(l.est_tokens), 0) AS tokens_of_minute
}
CALL (now) {
  MATCH (w:EmbedWorker) WHERE w.seen_at > now - $worker_ttl_ms
  RETURN coalesce(sum(w.slots), 0) AS slots
}
RETURN now, c.seq AS seq, coalesce(c.turn, 0) AS turn, coalesce(c.halted, false) AS halted,
  c.paused_until AS paused_until, c.trouble AS trouble, coalesce(c.trouble_rounds, 0) AS trouble_rounds, probing,
  slots, open_leases, open_backfills,
  held_requests + sent_requests AS spent_requests, held_tokens + sent_tokens AS spent_tokens,
  CASE WHEN found THEN c.found_requests END AS found_requests,
  CASE WHEN found THEN c.found_tokens END AS found_tokens,
  held_requests_of_minute + requests_of_minute AS minute_requests,
  held_tokens_of_minute + tokens_of_minute AS minute_tokens,
  coalesce(c.token_factor, 1.0) AS token_factor, c.refused_inputs AS refused_inputs,
  c.refused_inputs_at AS refused_inputs_at, c.slow_inputs AS slow_inputs, c.slow_inputs_at AS slow_inputs_at,
  c.query_at AS query_at, texts, coalesce(c.in_force <> $mark, false) AS displaced
