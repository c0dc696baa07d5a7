// The settings in force, only looked at.
// parameters: none
// rows:       one: in_force (fingerprint; null = none yet)
// locks:      none
MATCH (c:QueueControl {name: 'embedding'})
RETURN c.in_force AS in_force
