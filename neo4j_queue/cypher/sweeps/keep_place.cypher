// Notes where a search stood, so that the next one goes on from there.
// parameters: name, after (key, or null: at the first one)
// rows:       none
// locks:      control (there must not be two nodes of one name), then the node
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
MERGE (s:EmbedSweep {scope: $name})
SET s.after = $after
