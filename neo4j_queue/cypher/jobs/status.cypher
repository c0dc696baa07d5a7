// Counts by state, the age of the oldest due job, and when the last open lease runs out.
// The server keeps the number of nodes with a label, so what has ended is counted by labels, which each transition sets
// with the state: no count grows with the jobs, but with those in flight and those that wait for a back-off. `pending` is
// the rest. The counts are read one after the other: under writes they may disagree by a few.
// parameters: now
// rows:       one: pending (due), delayed, processing, started, completed, failed, total, oldest_due_at, last_lock_until,
//             now
// locks:      none
WITH coalesce($now, datetime.realtime().epochMillis) AS now
CALL (now) {
  UNWIND [9, 8, 7, 6, 5, 4, 3, 2, 1, 0] AS p
  CALL (p, now) {
    MATCH (j:EmbedJob) WHERE j.status = 'pending' AND j.priority = p AND j.available_at > now
    RETURN count(j) AS waiting
  }
  CALL (p, now) {
    MATCH (j:EmbedJob) WHERE j.status = 'pending' AND j.priority = p AND j.available_at <= now
    WITH j ORDER BY j.status, j.priority, j.available_at LIMIT 1
    RETURN min(j.available_at) AS due_at
  }
  RETURN sum(waiting) AS delayed, min(due_at) AS oldest_due_at
}
CALL () {
  MATCH (j:EmbedJob) WHERE j.status = 'processing' AND j.priority >= 0 AND j.available_at >= 0
  RETURN count(j) AS processing, count(j.started_at) AS started
}
CALL () { MATCH (j:EmbedCompleted) RETURN count(j) AS completed }
CALL () { MATCH (j:EmbedFailed) RETURN count(j) AS failed }
CALL () { MATCH (j:EmbedJob) RETURN count(j) AS total }
CALL () { MATCH (l:EmbedLease) WHERE l.open = true RETURN max(l.lock_until) AS last_lock_until }
WITH *, total - completed - failed - processing - delayed AS rest
RETURN CASE WHEN rest > 0 THEN rest ELSE 0 END AS pending, delayed, processing, started, completed, failed, total,
  oldest_due_at, last_lock_until, now
