// Whether a label without an index of the key has a node of this name, among its first nodes.
// parameters: keys, most (nodes looked at)
// rows:       one: found
// locks:      none
MATCH (n:__LABEL__)
WITH n LIMIT $most
WHERE n.__KEY__ IN [$keys[0], $keys[1]]
RETURN count(n) > 0 AS found
