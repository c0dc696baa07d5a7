// Ends halt and pause, and forgets what was known of the provider.
// parameters: now
// rows:       one: halted, paused (what was in force before)
// locks:      control
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
WITH c, coalesce(c.halted, false) AS halted,
  coalesce(c.paused_until, 0) > coalesce($now, datetime.realtime().epochMillis) AS paused
SET c.halted = false
REMOVE c.halted_reason, c.halted_at, c.paused_until, c.pause_reason, c.trouble, c.trouble_rounds, c.provider_failures
RETURN halted, paused
