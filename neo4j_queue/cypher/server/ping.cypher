// Does this database answer?
// parameters: none
// rows:       one: ok
// locks:      none
RETURN true AS ok
