// The triggers that are at work on this database: what `system` knows gets here within `apoc.trigger.refresh`.
// parameters: none
// rows:       name, query, params, paused
// locks:      none
CALL apoc.trigger.list() YIELD name, query, params, paused
RETURN name, query, params, paused
