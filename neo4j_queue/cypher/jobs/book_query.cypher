// Books the request of a search, as a lease of no jobs that ended when it began. Without a token only the wish is
// noted, so that leasing leaves room.
// parameters: token (null = not booked), est_tokens, tariff {provider, model, price}, now (epoch ms)
// rows:       none
// locks:      control (held by the caller)
MATCH (c:QueueControl {name: 'embedding'})
SET c.query_at = $now
WITH c WHERE $token IS NOT NULL
CREATE (l:EmbedLease {token: $token, owner: 'search', leased_at: $now, started_at: $now, requested_at: $now,
  finished_at: $now, outcome: 'query', jobs: 0, left: 0, requests: 1, est_tokens: $est_tokens})
SET l += $tariff
