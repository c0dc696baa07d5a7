// What the last sweep of changes has left for the next one, and the settings for which it holds.
// parameters: scope
// rows:       at most one: marks (as `watermark.Marks` writes them), marked_for (fingerprint)
// locks:      none
MATCH (s:EmbedSweep {scope: $scope})
RETURN s.marks AS marks, s.marked_for AS marked_for
