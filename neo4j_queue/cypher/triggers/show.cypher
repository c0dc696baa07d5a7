// The triggers of a database, as the database `system` knows them. Asked there.
// parameters: database
// rows:       name, query, selector, params, paused
// locks:      none
CALL apoc.trigger.show($database) YIELD name, query, selector, params, paused
RETURN name, query, selector, params, paused
