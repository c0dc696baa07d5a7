// Notes the request of a search where nothing is limited: it is counted by `usage`, and waits for no lock.
// parameters: token, est_tokens, tariff {provider, model, price}, now (epoch ms; null = the server's clock)
// rows:       none
// locks:      none: the node is new
WITH coalesce($now, datetime.realtime().epochMillis) AS now
CREATE (l:EmbedLease {token: $token, owner: 'search', leased_at: now, started_at: now, requested_at: now,
  finished_at: now, outcome: 'query', jobs: 0, left: 0, requests: 1, est_tokens: $est_tokens})
SET l += $tariff
