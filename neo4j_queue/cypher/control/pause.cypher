// No lease and no start until then. A pause is only made longer: the longest of several wins.
// parameters: ms, reason, now
// rows:       one: paused_until
// locks:      control
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
WITH c, coalesce($now, datetime.realtime().epochMillis) + $ms AS until
SET c.pause_reason = CASE WHEN coalesce(c.paused_until, 0) < until THEN $reason ELSE c.pause_reason END,
  c.paused_until = CASE WHEN coalesce(c.paused_until, 0) < until THEN until ELSE c.paused_until END
RETURN c.paused_until AS paused_until
