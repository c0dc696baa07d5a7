// Counts by state, straight from the indexes, the age of the oldest due job, and when the last open lease runs out.
// parameters: worker_ttl_ms, now
// rows:       one: pending (due), delayed, processing, started, completed, failed, total, oldest_due_at, last_lock_until,
//             now
// locks:      none
WITH coalesce($now, datetime.realtime().epochMillis) AS now
CALL (now) {
  MATCH (j:EmbedJob) WHERE j.status = 'pending' AND j.priority >= 0 AND j.available_at >= 0
  RETURN count(CASE WHEN j.available_at <= now THEN 1 END) AS pending,
    count(CASE WHEN j.available_at > now THEN 1 END) AS delayed
}
CALL () {
  MATCH (j:EmbedJob) WHERE j.status = 'processing' AND j.priority >= 0 AND j.available_at >= 0
  RETURN count(j) AS processing, count(j.started_at) AS started
}
CALL () {
  MATCH (j:EmbedJob) WHERE j.status = 'completed' AND j.processed_at >= 0 RETURN count(j) AS completed
}
CALL () {
  MATCH (j:EmbedJob) WHERE j.status = 'failed' AND j.processed_at >= 0 RETURN count(j) AS failed
}
CALL (now) {
  UNWIND [9, 8, 7, 6, 5, 4, 3, 2, 1, 0] AS p
  CALL (p, now) {
    MATCH (j:EmbedJob) WHERE j.status = 'pending' AND j.priority = p AND j.available_at <= now
    RETURN j.available_at AS due_at ORDER BY j.status, j.priority, j.available_at LIMIT 1
  }
  RETURN min(due_at) AS oldest_due_at
}
CALL () { MATCH (l:EmbedLease) WHERE l.open = true RETURN max(l.lock_until) AS last_lock_until }
CALL () { MATCH (j:EmbedJob) RETURN count(j) AS total }
RETURN pending, delayed, processing, started, completed, failed, total, oldest_due_at, last_lock_until, now
