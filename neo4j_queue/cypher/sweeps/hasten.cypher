// Says how often sweeps of a scope are due, where that is more often than the settings say.
// parameters: scope, every_ms (null: as the settings say)
// rows:       one: every_ms
// locks:      control (there must not be two nodes of one scope), then the sweep
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
MERGE (s:EmbedSweep {scope: $scope})
SET s.every_ms = $every_ms
RETURN s.every_ms AS every_ms
