// Writes a new health state; the row tells whether this call was the one that changed it.
// parameters: state
// rows:       one: before
// locks:      the health node
MATCH (h:EmbedHealth {name: 'embedding'})
SET h._lock = true
WITH h, h.state AS before
SET h.state = $state
RETURN before
