// How many relations the server has, which it knows without looking at one.
// parameters: none
// rows:       one: relations
// locks:      none
RETURN COUNT { ()-->() } AS relations
