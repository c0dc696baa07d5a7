// Gives jobs of one lease back, unjudged: due at once, at their old place, no attempt counted. With a delay they stand
// back that long.
// parameters: token, rows [{id, delay_ms, max_batch (null = as before), noted (error properties to note, or {})}], now
// packed:     id of each job that was given back
// locks:      the lease, then its jobs in the order given
MATCH (l:EmbedLease {token: $token})
SET l._lock = true
WITH l
UNWIND $rows AS row
MATCH (j:EmbedJob {id: row.id})
SET j._lock = true
WITH row, j WHERE j.status = 'processing' AND j.lease_token = $token
SET j.status = 'pending', j.max_batch = coalesce(row.max_batch, j.max_batch), j.available_at = CASE row.delay_ms
  WHEN 0 THEN j.available_at
  ELSE coalesce($now, datetime.realtime().epochMillis) + row.delay_ms END
SET j += row.noted
REMOVE j.lock_owner, j.lock_until, j.lease_token, j.started_at, j.leased_at
RETURN collect({id: j.id}) AS rows
