// Which store this is: an id that two databases never share, whatever address leads to them.
// parameters: none
// rows:       one: id
// locks:      none
CALL db.info() YIELD id
RETURN id
