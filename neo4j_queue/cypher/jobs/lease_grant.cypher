// Gives the planned leases: a lease node each, their jobs to `processing`.
// parameters: leases [{token, ids, requests, est_tokens, texts, backfill (true or null)}], owner, deadline_ms (until work must have started),
//             turn, probe (true, or null: not a probe), now (epoch ms)
// rows:       token, ids (those really given)
// locks:      control (held by the caller), then jobs in the order given
MATCH (c:QueueControl {name: 'embedding'})
SET c.seq = c.seq + size($leases), c.turn = $turn
WITH c
UNWIND $leases AS lease
CREATE (:EmbedLease {token: lease.token, owner: $owner, leased_at: $now, lock_until: $now + $deadline_ms,
  open: true, jobs: size(lease.ids), left: size(lease.ids), requests: lease.requests, est_tokens: lease.est_tokens,
  probe: $probe, texts: lease.texts, backfill: lease.backfill, _lock: true})
WITH lease
UNWIND lease.ids AS id
MATCH (j:EmbedJob {id: id})
SET j._lock = true
WITH lease, j WHERE j.status = 'pending'
SET j.status = 'processing', j.lease_token = lease.token, j.lock_owner = $owner, j.leased_at = $now,
  j.lock_until = $now + $deadline_ms
REMOVE j.started_at
RETURN lease.token AS token, collect(j.id) AS ids
