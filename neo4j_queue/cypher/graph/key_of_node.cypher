// The key of the node that a message of the server names.
// parameters: node (its internal number, which is all that the message has)
// rows:       key; none if it is no entity
// locks:      none
MATCH (n:__LABEL__) WHERE id(n) = $node
RETURN n.__KEY__ AS key
