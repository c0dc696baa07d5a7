// Which store this is: an id that two databases never share, whatever address leads to them; and the database's own
// name, where an alias or other letters led to it.
// parameters: none
// rows:       one: id, name
// locks:      none
CALL db.info() YIELD id, name
RETURN id, name
