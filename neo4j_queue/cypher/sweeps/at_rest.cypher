// Whether the last sweep of a scope has rested for less time than it should.
// parameters: scope, rests (how many times as long as it worked), now
// rows:       one if so, else none: ended_at
// locks:      none
MATCH (s:EmbedSweep {scope: $scope})
WHERE s.ended_at >= s.began_at
  AND s.ended_at + $rests * (s.ended_at - s.began_at) > coalesce($now, datetime.realtime().epochMillis)
RETURN s.ended_at AS ended_at
