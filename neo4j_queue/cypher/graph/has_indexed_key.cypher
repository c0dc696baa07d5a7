// Whether a label whose key has an index has a node of this key.
// parameters: uid
// rows:       one: found
// locks:      none
MATCH (n:__LABEL__ {__KEY__: $uid})
WITH n LIMIT 1
RETURN count(n) > 0 AS found
