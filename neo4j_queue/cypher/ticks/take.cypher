// Takes a recurring act for one caller, unless it was taken lately: one row, else none.
// parameters: act (the property that notes it: a name of neo4j_queue/queue/ticks.py), every_ms (at most so often), now
// rows:       one when the act is the caller's: at
// locks:      control, if the act is due; judged again under the lock, for two may ask at once
MATCH (c:QueueControl {name: 'embedding'})
// A time that lies ahead was noted before the clock was set back: it says nothing.
WHERE abs(coalesce($now, datetime.realtime().epochMillis) - coalesce(c[$act], 0)) >= $every_ms
SET c._lock = true
WITH c, coalesce($now, datetime.realtime().epochMillis) AS now
WHERE abs(now - coalesce(c[$act], 0)) >= $every_ms
SET c[$act] = now
RETURN now AS at
