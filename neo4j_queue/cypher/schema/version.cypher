// The version of the jobs database; no row when it was never prepared.
// parameters: none
// rows:       none or one: version
// locks:      none
MATCH (c:QueueControl {name: 'embedding'})
RETURN c.schema_version AS version
