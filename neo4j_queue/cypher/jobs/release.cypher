// Gives jobs of one lease back, unjudged: due at once, at their old place, no attempt counted. With a delay they stand
// back that long.
// parameters: token, rows [{id}], noted (error properties to note on the jobs, or {}), delay_ms, now
// packed:     id of each job that was given back
// locks:      the lease, then its jobs in the order given
MATCH (l:EmbedLease {token: $token})
SET l._lock = true
WITH l
UNWIND $rows AS row
MATCH (j:EmbedJob {id: row.id})
SET j._lock = true
WITH j WHERE j.status = 'processing' AND j.lease_token = $token
SET j.status = 'pending', j.available_at = CASE $delay_ms
  WHEN 0 THEN j.available_at
  ELSE coalesce($now, datetime.realtime().epochMillis) + $delay_ms END
SET j += $noted
REMOVE j.lock_owner, j.lock_until, j.lease_token, j.started_at, j.leased_at
RETURN collect({id: j.id}) AS rows
