// Whether other settings than these are in force.
// parameters: mark (fingerprint; null = not compared)
// rows:       one: displaced
// locks:      none
MATCH (c:QueueControl {name: 'embedding'})
RETURN coalesce(c.in_force <> $mark, false) AS displaced
