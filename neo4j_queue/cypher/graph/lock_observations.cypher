// Locks a current entity, so that its observations can be changed from what they really are.
// parameters: keys
// rows:       observations (as stored); none when the entity is not there
// locks:      the entity, by the write of `_lock`
MATCH (n:__LABEL__)
WHERE n.__KEY__ IN $keys
SET n._lock = true
REMOVE n._lock
WITH n
WHERE n.__KEY__ IN $keys AND n.__DELETED__ IS NULL
RETURN n.observations AS observations
