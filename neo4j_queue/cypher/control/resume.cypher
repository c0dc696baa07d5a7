// Ends a halt, a pause, or both. With both it also forgets what was known of the provider. A pause that is ended alone
// leaves the trouble, so that a probe goes out at once.
// parameters: halt, pause (true: end it), now
// rows:       one: halted, paused (were they in force, and are now ended?), troubled (was it forgotten?)
// locks:      control
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
WITH c, $halt AND coalesce(c.halted, false) AS halted,
  $pause AND coalesce(c.paused_until, 0) > coalesce($now, datetime.realtime().epochMillis) AS paused,
  $halt AND $pause AND c.trouble IS NOT NULL AS troubled
FOREACH (_ IN CASE WHEN $halt THEN [1] ELSE [] END |
  SET c.halted = false
  REMOVE c.halted_reason, c.halted_at)
FOREACH (_ IN CASE WHEN $pause THEN [1] ELSE [] END |
  REMOVE c.paused_until, c.pause_reason)
FOREACH (_ IN CASE WHEN $halt AND $pause THEN [1] ELSE [] END |
  REMOVE c.trouble, c.trouble_rounds, c.provider_failures, c.refused_inputs, c.refused_inputs_at, c.slow_inputs,
    c.slow_inputs_at)
RETURN halted, paused, troubled
