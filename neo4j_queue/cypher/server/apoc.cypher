// The procedures of APOC that clean-up uses.
// parameters: none
// rows:       one: procedures (0 when APOC is missing or not allowed)
// locks:      none
SHOW PROCEDURES YIELD name
WHERE name = 'apoc.periodic.iterate'
RETURN count(*) AS procedures
