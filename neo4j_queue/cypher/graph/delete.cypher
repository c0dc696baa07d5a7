// Deletes an entity with its relationships and all of its versions.
// parameters: uid
// rows:       one: deleted
// locks:      the entity, its relationships and their other ends
MATCH (n:__LABEL__ {__KEY__: $uid})
DETACH DELETE n
RETURN count(*) AS deleted
