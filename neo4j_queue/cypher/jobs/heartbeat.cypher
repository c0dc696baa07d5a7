// Extends the locks of leases whose work is being executed right now.
// parameters: leases [{token, ids}] in the order of their tokens, lock_ms, now
// rows:       token, jobs (number extended); a token without a row is lost
// locks:      the lease, then its jobs
UNWIND $leases AS lease
MATCH (l:EmbedLease {token: lease.token})
SET l._lock = true
WITH lease, l WHERE l.open = true AND l.started_at IS NOT NULL
WITH lease, l, coalesce($now, datetime.realtime().epochMillis) + $lock_ms AS until
SET l.lock_until = until
WITH lease, until
UNWIND lease.ids AS id
MATCH (j:EmbedJob {id: id})
SET j._lock = true
WITH lease, until, j WHERE j.status = 'processing' AND j.lease_token = lease.token
SET j.lock_until = until
RETURN lease.token AS token, count(j) AS jobs
