// The embed workers that answered lately, with the leases that they run now: by the open leases, for the census is as old
// as the last heartbeat.
// parameters: worker_ttl_ms, now
// rows:       name, slots, leases, seen_ms_ago, fingerprint
// locks:      none
WITH coalesce($now, datetime.realtime().epochMillis) AS now
CALL () {
  MATCH (l:EmbedLease) WHERE l.open = true AND l.started_at IS NOT NULL
  RETURN collect(l.worker) AS holders
}
MATCH (w:EmbedWorker) WHERE w.seen_at > now - $worker_ttl_ms
RETURN w.name AS name, w.slots AS slots, size([holder IN holders WHERE holder = w.name]) AS leases,
  now - w.seen_at AS seen_ms_ago, w.fingerprint AS fingerprint ORDER BY name
