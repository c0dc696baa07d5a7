// Counts off the jobs of a lease that got a verdict, and ends the lease when none is left or its holder says so.
// A lease without a request counts nothing against the rate budget. With the first verdict the texts of the lease are
// no longer in hand.
// parameters: token, settled (jobs that got a verdict or were given back), ended (of them, for good), final, outcome
//             ('completed', 'released', 'lost'), requests and est_tokens (really sent; null = not known), inputs (sent) and saved (not sent),
//             sent_ms_ago (since the last request was sent), worker_ttl_ms (a silent worker counts that long), node
//             (where its counts are added), counts [{name, by}], tariff {provider, model}, now
// rows:       token when the lease was ended by this call; troubled (failures of the provider are on record, so
//             that a success is news); more_due (jobs are due and few leases wait)
// locks:      the lease, then the node of its counts
// The counts are added while the lease is open, so that a settlement which is repeated adds nothing.
MATCH (l:EmbedLease {token: $token})
SET l._lock = true
WITH l, coalesce($now, datetime.realtime().epochMillis) AS now WHERE l.open = true
SET l.left = l.left - $settled, l.ended = CASE WHEN $ended > 0 THEN coalesce(l.ended, 0) + $ended ELSE l.ended END,
  l.texts = CASE WHEN $final OR $settled > 0 THEN null ELSE l.texts END
WITH l, now
CALL () {
  MERGE (m:EmbedHealth {name: $node})
  ON CREATE SET m:EmbedCounts, m.provider = $tariff.provider, m.model = $tariff.model
  SET m._lock = true
  WITH m
  UNWIND $counts AS count
  SET m[count.name] = coalesce(m[count.name], 0) + count.by
}
WITH l, now WHERE $final OR l.left <= 0
SET l.finished_at = now, l.outcome = $outcome, l.inputs = $inputs, l.saved = $saved, l.ended = coalesce(l.ended, 0),
  l.requested_at = CASE
    WHEN $requests IS NULL THEN CASE WHEN l.started_at IS NULL THEN null ELSE now END
    WHEN $requests = 0 THEN null
    ELSE now - $sent_ms_ago END,
  l.requests = coalesce($requests, l.requests), l.est_tokens = coalesce($est_tokens, l.est_tokens)
REMOVE l.open
WITH l, now
MATCH (c:QueueControl {name: 'embedding'})
CALL (now) {
  MATCH (w:EmbedWorker) WHERE w.seen_at > now - $worker_ttl_ms
  RETURN coalesce(sum(w.slots), 0) AS slots
}
// While leases for half of the slots wait, the worker that takes one of them asks: so one transaction makes several. A
// lease that has waited for seconds does not count: its message may be lost.
CALL (now) {
  MATCH (o:EmbedLease) WHERE o.open = true AND o.started_at IS NULL AND o.leased_at > now - 2000
  RETURN count(o) AS waiting
}
RETURN l.token AS token, coalesce(c.provider_failures, 0) > 0 OR c.trouble IS NOT NULL AS troubled,
  (slots = 0 OR 2 * waiting <= slots + 1) AND EXISTS {
    UNWIND [9, 8, 7, 6, 5, 4, 3, 2, 1, 0] AS p
    MATCH (j:EmbedJob)
    WHERE j.status = 'pending' AND j.priority = p AND j.available_at <= now
    RETURN j
  } AS more_due
