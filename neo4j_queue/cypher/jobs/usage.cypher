// What was asked of the provider lately, straight from the index of the leases' last requests: a row for each provider,
// model and price that the leases noted when they began.
// parameters: window_ms, now
// rows:       provider, model, price (null = not noted), batches, jobs (in them), requests, model_tokens, searches
//             (requests of searches among them), unconfirmed (requests of leases that ran out: at most so many were not
//             sent), first_at, last_at, now; one row of nulls and zeros when nothing was asked
// locks:      none
WITH coalesce($now, datetime.realtime().epochMillis) AS now
OPTIONAL MATCH (l:EmbedLease) WHERE l.requested_at > now - $window_ms
WITH now, l.provider AS provider, l.model AS model, l.price AS price,
  count(CASE WHEN l.jobs > 0 THEN 1 END) AS batches, coalesce(sum(l.jobs), 0) AS jobs,
  coalesce(sum(l.requests), 0) AS requests, coalesce(sum(l.est_tokens), 0) AS model_tokens,
  coalesce(sum(CASE WHEN l.outcome = 'query' THEN l.requests END), 0) AS searches,
  coalesce(sum(CASE WHEN l.outcome = 'expired' THEN l.requests END), 0) AS unconfirmed,
  min(l.requested_at) AS first_at, max(l.requested_at) AS last_at
RETURN provider, model, price, batches, jobs, requests, model_tokens, searches, unconfirmed, first_at, last_at, now
ORDER BY provider, model, price
