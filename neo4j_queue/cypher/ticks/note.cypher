// Notes that a lease task ran, and whether beat had sent it.
// parameters: beat, every_ms (a note younger than this is not renewed), sample_ms (a sample of the queue is due after it),
//             now
// rows:       one if a note is renewed: sample_due
// locks:      control, if a note is renewed
MATCH (c:QueueControl {name: 'embedding'})
WITH c, coalesce($now, datetime.realtime().epochMillis) AS now
// Also when a note lies ahead: the clock was set back.
WHERE abs(now - coalesce(c.lease_tick_at, 0)) >= $every_ms OR ($beat AND abs(now - coalesce(c.beat_at, 0)) >= $every_ms)
SET c.lease_tick_at = now, c.beat_at = CASE WHEN $beat THEN now ELSE c.beat_at END
RETURN abs(now - coalesce(c.sampled_at, 0)) >= $sample_ms AS sample_due
