// Puts a trigger onto a database, in place of one of the same name. Asked on the database `system`.
// parameters: database, name, body (the statement), phase, params
// rows:       name
// locks:      none of ours
CALL apoc.trigger.install($database, $name, $body, {phase: $phase}, {params: $params}) YIELD name
RETURN name
