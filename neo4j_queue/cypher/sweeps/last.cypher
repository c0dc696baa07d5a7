// What the last sweep of a scope that came to its end has counted.
// parameters: scope
// rows:       at most one: ended_at, seen, fresh, missing
// locks:      none
MATCH (s:EmbedSweep {scope: $scope}) WHERE s.ended_at IS NOT NULL
RETURN s.ended_at AS ended_at, s.last_seen AS seen, s.last_fresh AS fresh, s.last_missing AS missing
