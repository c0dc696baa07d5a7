// Opens a transaction about news of the provider: takes the control lock, then reads what the judgement needs.
// parameters: token (the lease whose request brought the news), now
// rows:       one: now, ours (the lease is still its holder's), leased_at, probe, trouble, rounds, failures,
//             paused_until (null = never)
// locks:      control, then the lease
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
WITH c, coalesce($now, datetime.realtime().epochMillis) AS now
OPTIONAL MATCH (l:EmbedLease {token: $token})
SET l._lock = true
RETURN now, coalesce(l.open, false) AS ours, l.leased_at AS leased_at, coalesce(l.probe, false) AS probe,
  c.trouble AS trouble, coalesce(c.trouble_rounds, 0) AS rounds, coalesce(c.provider_failures, 0) AS failures,
  c.paused_until AS paused_until
