// Whether a sweep of this scope is due.
// parameters: scope, act (the property that notes when one was last begun: a name of neo4j_queue/queue/ticks.py), every_ms
//             (at most so often; more often where the sweep's node says so), now
// rows:       one if so, else none: every_ms (the one that counts)
// locks:      none
MATCH (c:QueueControl {name: 'embedding'})
OPTIONAL MATCH (s:EmbedSweep {scope: $scope})
WITH c, CASE WHEN s.every_ms < $every_ms THEN s.every_ms ELSE $every_ms END AS every_ms
// As of ticks/take.
WHERE abs(coalesce($now, datetime.realtime().epochMillis) - coalesce(c[$act], 0)) >= every_ms
RETURN every_ms
