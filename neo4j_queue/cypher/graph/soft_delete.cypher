// Ends the validity of an entity: never embedded, never found, still there.
// parameters: uid
// rows:       one: deleted
// locks:      the entity, by the write of `_lock`
MATCH (n:__LABEL__ {__KEY__: $uid})
SET n._lock = true
REMOVE n._lock
WITH n
WHERE n.__KEY__ = $uid AND n.validTo IS NULL
SET n.validTo = datetime.realtime().epochMillis
REMOVE n:EmbedPending
RETURN count(*) AS deleted
