// Notes that the jobs database has this version; an older program never takes a newer version back.
// parameters: version
// rows:       one: version (as it is now)
// locks:      control
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
WITH c
SET c.schema_version = CASE WHEN coalesce(c.schema_version, 0) < $version THEN $version ELSE c.schema_version END
RETURN c.schema_version AS version
