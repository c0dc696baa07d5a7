// Deletes an entity with its relationships and all of its versions.
// parameters: keys
// rows:       one: deleted
// locks:      the entity, its relationships and their other ends
MATCH (n:__LABEL__)
WHERE n.__KEY__ IN [$keys[0], $keys[1]]
DETACH DELETE n
RETURN count(*) AS deleted
