// Whether the last sweep of a scope has rested for less time than it took.
// parameters: scope, now
// rows:       one if so, else none: ended_at
// locks:      none
MATCH (s:EmbedSweep {scope: $scope})
WHERE s.ended_at >= s.began_at
  AND 2 * s.ended_at - s.began_at > coalesce($now, datetime.realtime().epochMillis)
RETURN s.ended_at AS ended_at
