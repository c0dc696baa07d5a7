// The open leases whose work has begun.
// parameters: none
// rows:       token, worker, started_at, lock_until
// locks:      none
MATCH (l:EmbedLease) WHERE l.open = true AND l.started_at IS NOT NULL
RETURN l.token AS token, l.worker AS worker, l.started_at AS started_at, l.lock_until AS lock_until
