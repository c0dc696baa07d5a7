// Writes down which embed workers answered, how many jobs each can run at once, and forgets those long silent.
// parameters: workers [{name, slots, leases, fingerprint}], forget_ms, now
// rows:       name, silent_ms of each worker that was known before and did not answer this time
// locks:      worker nodes in the order of their names
WITH coalesce($now, datetime.realtime().epochMillis) AS now
CALL (now) {
  UNWIND $workers AS worker
  MERGE (w:EmbedWorker {name: worker.name})
  SET w.slots = worker.slots, w.leases = worker.leases, w.fingerprint = worker.fingerprint, w.seen_at = now
}
CALL (now) {
  MATCH (w:EmbedWorker) WHERE w.name IS NOT NULL AND w.seen_at < now - $forget_ms
  DELETE w
}
MATCH (w:EmbedWorker) WHERE w.seen_at < now
RETURN w.name AS name, now - w.seen_at AS silent_ms
