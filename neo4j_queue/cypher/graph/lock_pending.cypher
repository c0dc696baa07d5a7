// Locks marked entities and reads what tells whether the mark may go.
// parameters: uids, sorted; properties (names of the source properties), model
// packed:     node (element id), uid, source, width, hash, model, deleted
// locks:      entities in the order of `uids`, by the write of `_lock`
UNWIND $uids AS uid
MATCH (n:__LABEL__ {__KEY__: uid})
WHERE n:EmbedPending
SET n._lock = true
REMOVE n._lock
WITH uid, n
WHERE n.__KEY__ = uid AND n:EmbedPending
WITH uid, n, CASE WHEN n.__VECTOR_MODEL__ = $model AND n.__VECTOR__ IS :: LIST<FLOAT NOT NULL> NOT NULL
  THEN size(n.__VECTOR__) WHEN n.__VECTOR__ IS NOT NULL THEN 0 END AS width
RETURN collect({node: elementId(n), uid: uid, source: [name IN $properties | n[name]], width: width,
  hash: n.__VECTOR_HASH__, model: n.__VECTOR_MODEL__, deleted: n.validTo IS NOT NULL}) AS rows
