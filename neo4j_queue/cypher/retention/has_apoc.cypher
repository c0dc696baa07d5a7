// Is APOC's batch procedure there?
// parameters: none
// rows:       one: found
// locks:      none
SHOW PROCEDURES YIELD name WHERE name = 'apoc.periodic.iterate' RETURN count(*) > 0 AS found
