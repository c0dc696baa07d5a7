// Whether all workers are to be asked, and not only those that are known; whoever is told so does it.
// parameters: every_ms (at most so often), now
// rows:       one if they are, else none
// locks:      control, if they are
MATCH (c:QueueControl {name: 'embedding'})
WITH c, coalesce($now, datetime.realtime().epochMillis) AS now
WHERE coalesce(c.all_asked_at, 0) <= now - $every_ms
SET c.all_asked_at = now
RETURN now AS asked_at
