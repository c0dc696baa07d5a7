// Books further provider requests on a running lease (a refused batch is cut into parts).
// parameters: token, requests, est_tokens (model tokens of them)
// rows:       token; none when the lease is not ours any more
// locks:      control (held by the caller), then the lease
MATCH (l:EmbedLease {token: $token})
SET l._lock = true
WITH l WHERE l.open = true
SET l.requests = l.requests + $requests, l.est_tokens = l.est_tokens + $est_tokens
RETURN l.token AS token
