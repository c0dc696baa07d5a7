// Workers that did not answer when they were asked last, and said no good-bye, until the census forgets them. Where nobody
// asks, silence says nothing.
// parameters: missed_ms (silence after which a worker has missed a heartbeat), now
// rows:       name, silent_ms, leases (when it last answered), holds (open leases that it started), the longest silent
//             first
// locks:      none
MATCH (c:QueueControl {name: 'embedding'})
WITH c.heartbeat_at AS asked_at, coalesce($now, datetime.realtime().epochMillis) AS now
MATCH (w:EmbedWorker) WHERE w.seen_at < now - $missed_ms AND w.seen_at < asked_at
WITH w, now, COUNT { MATCH (l:EmbedLease) WHERE l.open = true AND l.started_at IS NOT NULL AND l.worker = w.name } AS holds
RETURN w.name AS name, now - w.seen_at AS silent_ms, w.leases AS leases, holds ORDER BY silent_ms DESC, name
