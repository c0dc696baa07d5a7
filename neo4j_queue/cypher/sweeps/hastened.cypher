// How often sweeps of a scope are due, where that is more often than the settings say.
// parameters: scope
// rows:       at most one: every_ms
// locks:      none
MATCH (s:EmbedSweep {scope: $scope}) WHERE s.every_ms IS NOT NULL
RETURN s.every_ms AS every_ms
