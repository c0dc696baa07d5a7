// Opens a transaction about news of the provider: takes the control lock, then reads what the judgement needs.
// parameters: token (the lease whose request brought the news), ids (its jobs), now
// rows:       one: now, ours (the lease still holds one of its jobs), leased_at, probe, trouble, rounds, failures,
//             paused_until (null = never)
// locks:      control, then the lease
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
WITH c, coalesce($now, datetime.realtime().epochMillis) AS now
OPTIONAL MATCH (l:EmbedLease {token: $token})
SET l._lock = true
RETURN now, coalesce(l.open, false) AND EXISTS {
    UNWIND $ids AS id
    MATCH (j:EmbedJob {id: id}) WHERE j.status = 'processing' AND j.lease_token = $token
    RETURN j
  } AS ours, l.leased_at AS leased_at, coalesce(l.probe, false) AS probe,
  c.trouble AS trouble, coalesce(c.trouble_rounds, 0) AS rounds, coalesce(c.provider_failures, 0) AS failures,
  c.paused_until AS paused_until
