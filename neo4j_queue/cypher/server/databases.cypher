// The databases of a server but its own; asked on the database `system`.
// parameters: none
// rows:       name
// locks:      none
SHOW DATABASES YIELD name, type
WHERE type <> 'system'
RETURN DISTINCT name ORDER BY name
