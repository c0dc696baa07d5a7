// How much of the rate limit is used now, and how fast jobs ended lately, straight from the indexes of the leases.
// parameters: interval_ms (window of the rate limit), lately_ms, now
// rows:       one: used (requests), jobs (of the batches that ended lately), since (epoch ms; when the first of these was
//             leased, null: none ended), in_force (the fingerprint of the settings in force; null = none yet), now
// locks:      none
WITH coalesce($now, datetime.realtime().epochMillis) AS now
CALL () { MATCH (l:EmbedLease) WHERE l.open = true RETURN coalesce(sum(l.requests), 0) AS held }
CALL (now) {
  MATCH (l:EmbedLease) WHERE l.requested_at > now - $interval_ms RETURN coalesce(sum(l.requests), 0) AS sent
}
CALL (now) {
  MATCH (l:EmbedLease) WHERE l.finished_at > now - $lately_ms AND l.outcome = 'completed'
  RETURN coalesce(sum(l.jobs), 0) AS jobs, min(l.leased_at) AS since
}
OPTIONAL MATCH (c:QueueControl {name: 'embedding'})
RETURN held + sent AS used, jobs, since, c.in_force AS in_force, now
