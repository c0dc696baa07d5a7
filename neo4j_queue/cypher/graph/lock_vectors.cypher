// Locks the entities of one key that carry a vector, and reads it.
// parameters: keys
// rows:       node (element id), vector (whatever stands in its place)
// locks:      the entities, by the write of `_lock`
MATCH (n:__LABEL__)
WHERE n.__KEY__ IN [$keys[0], $keys[1]]
SET n._lock = true
REMOVE n._lock
WITH n
WHERE n.__KEY__ IN [$keys[0], $keys[1]] AND n.__VECTOR__ IS NOT NULL
RETURN elementId(n) AS node, n.__VECTOR__ AS vector
