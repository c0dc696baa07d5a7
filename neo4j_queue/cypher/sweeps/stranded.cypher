// The sweeps that stopped in the middle: the message of their next turn was lost, or their worker died.
// parameters: silent_ms, now
// rows:       scope, token
// locks:      none
MATCH (s:EmbedSweep)
WHERE s.moved_at + $silent_ms < coalesce($now, datetime.realtime().epochMillis)
RETURN s.scope AS scope, s.token AS token
