// Locks a current entity, so that its observations can be changed from what they really are.
// parameters: uid
// rows:       observations (as stored); none when the entity is not there
// locks:      the entity, by the write of `_lock`
MATCH (n:__LABEL__ {__KEY__: $uid})
SET n._lock = true
REMOVE n._lock
WITH n
WHERE n.__KEY__ = $uid AND n.validTo IS NULL
RETURN n.observations AS observations
