// Takes a trigger off a database. Asked on the database `system`.
// parameters: database, name
// rows:       name; none if there was none
// locks:      none of ours
CALL apoc.trigger.drop($database, $name) YIELD name
RETURN name
