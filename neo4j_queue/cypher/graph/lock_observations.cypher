// Locks a current entity, so that its observations can be changed from what they really are.
// parameters: keys
// rows:       observations (as stored); none when the entity is not there
// locks:      the entity, by the write of `_lock`
MATCH (n:__LABEL__)
WHERE n.__KEY__ IN [$keys[0], $keys[1]]
SET n._lock = true
REMOVE n._lock
WITH n
WHERE n.__KEY__ IN [$keys[0], $keys[1]] AND n.__DELETED__ IS NULL
RETURN n.observations AS observations
