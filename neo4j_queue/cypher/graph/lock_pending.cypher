// Locks marked entities and reads what tells whether the mark may go.
// parameters: names [keys], sorted; properties (names of the source properties), model
// packed:     node (element id), key, source, width, hash, model, deleted
// locks:      entities in the order of `names`, by the write of `_lock`
UNWIND $names AS keys
MATCH (n:__LABEL__)
WHERE n.__KEY__ IN [keys[0], keys[1]] AND n:EmbedPending
SET n._lock = true
REMOVE n._lock
WITH keys, n
WHERE n.__KEY__ IN [keys[0], keys[1]] AND n:EmbedPending
WITH n, CASE WHEN n.__VECTOR_MODEL__ = $model AND n.__VECTOR__ IS :: LIST<FLOAT NOT NULL> NOT NULL
  THEN size(n.__VECTOR__) WHEN n.__VECTOR__ IS NOT NULL THEN 0 END AS width
RETURN collect({node: elementId(n), key: n.__KEY__, source: [name IN $properties | n[name]], width: width,
  hash: n.__VECTOR_HASH__, model: n.__VECTOR_MODEL__, deleted: n.__DELETED__ IS NOT NULL}) AS rows
