// The embed workers that answered lately.
// parameters: worker_ttl_ms, now
// rows:       name, slots, leases, seen_ms_ago, fingerprint
// locks:      none
WITH coalesce($now, datetime.realtime().epochMillis) AS now
MATCH (w:EmbedWorker) WHERE w.seen_at > now - $worker_ttl_ms
RETURN w.name AS name, w.slots AS slots, w.leases AS leases, now - w.seen_at AS seen_ms_ago,
  w.fingerprint AS fingerprint ORDER BY name
