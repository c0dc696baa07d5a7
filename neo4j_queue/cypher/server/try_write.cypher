// Whether the jobs database takes writes: one that stores nothing new, and needs the same right.
// parameters: none
// rows:       one: tried
// locks:      control
MATCH (c:QueueControl {name: 'embedding'})
SET c._probed = coalesce(c._probed, 0) + 1
RETURN true AS tried
