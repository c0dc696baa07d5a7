// When the last sweep of a scope began.
// parameters: scope
// rows:       at most one: began_at (epoch ms)
// locks:      none
MATCH (s:EmbedSweep {scope: $scope}) WHERE s.began_at IS NOT NULL
RETURN s.began_at AS began_at
