// Stops the queue until a person resumes it. The first reason stands.
// parameters: reason, now
// rows:       one: changed
// locks:      control
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
WITH c, coalesce(c.halted, false) AS before
SET c.halted = true,
  c.halted_reason = CASE WHEN before THEN c.halted_reason ELSE $reason END,
  c.halted_at = CASE WHEN before THEN c.halted_at ELSE coalesce($now, datetime.realtime().epochMillis) END
RETURN NOT before AS changed
