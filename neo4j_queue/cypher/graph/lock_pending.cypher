// Locks marked entities and reads what tells whether the mark may go.
// parameters: uids, sorted; properties (names of the source properties)
// packed:     node (element id), uid, source, embedded, hash, model, deleted
// locks:      entities in the order of `uids`, by the write of `_lock`
UNWIND $uids AS uid
MATCH (n:__LABEL__ {__KEY__: uid})
WHERE n:EmbedPending
SET n._lock = true
REMOVE n._lock
WITH uid, n
WHERE n.__KEY__ = uid AND n:EmbedPending
WITH uid, n, n.embedding IS NOT NULL AS embedded
RETURN collect({node: elementId(n), uid: uid, source: [name IN $properties | n[name]], embedded: embedded,
  hash: n.embedding_hash, model: n.embedding_model, deleted: n.validTo IS NOT NULL}) AS rows
