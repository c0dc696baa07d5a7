// Whether a label whose key has an index has a node of this name.
// parameters: keys
// rows:       one: found
// locks:      none
MATCH (n:__LABEL__) WHERE n.__KEY__ IN [$keys[0], $keys[1]]
WITH n LIMIT 1
RETURN count(n) > 0 AS found
