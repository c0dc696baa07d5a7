// Counts off jobs that an operator took back from their leases, and ends the leases that hold none any more. A started one
// may have sent its request, and counts against the rate budget from now. What is left has no text in hand: twins need not
// wait.
// parameters: taken [{token, jobs}], now
// rows:       token of each lease that was ended
// locks:      leases in the order given
UNWIND $taken AS row
MATCH (l:EmbedLease {token: row.token})
SET l._lock = true
WITH row, l, coalesce($now, datetime.realtime().epochMillis) AS now WHERE l.open = true
SET l.left = l.left - row.jobs
REMOVE l.texts
WITH l, now WHERE l.left <= 0
SET l.finished_at = now, l.outcome = 'released', l.requested_at = CASE WHEN l.started_at IS NOT NULL THEN now END
REMOVE l.open
RETURN l.token AS token
