// How long ago each recurring act was taken.
// parameters: now
// rows:       one: beat_ms, lease_ms, heartbeat_ms (null = never)
// locks:      none
MATCH (c:QueueControl {name: 'embedding'})
WITH c, coalesce($now, datetime.realtime().epochMillis) AS now
RETURN now - c.beat_at AS beat_ms, now - c.lease_tick_at AS lease_ms, now - c.heartbeat_at AS heartbeat_ms
