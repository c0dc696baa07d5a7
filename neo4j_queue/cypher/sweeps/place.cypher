// Where a search that goes on from call to call stood last.
// parameters: name
// rows:       at most one: after (key, or null)
// locks:      none
MATCH (s:EmbedSweep {scope: $name})
RETURN s.after AS after
