// Ends the validity of an entity: never embedded, never found, still there.
// parameters: keys
// rows:       one: deleted
// locks:      the entity, by the write of `_lock`
MATCH (n:__LABEL__)
WHERE n.__KEY__ IN [$keys[0], $keys[1]]
SET n._lock = true
REMOVE n._lock
WITH n
WHERE n.__KEY__ IN [$keys[0], $keys[1]] AND n.__DELETED__ IS NULL
SET n.__DELETED__ = datetime.realtime().epochMillis
REMOVE n:EmbedPending
RETURN count(*) AS deleted
