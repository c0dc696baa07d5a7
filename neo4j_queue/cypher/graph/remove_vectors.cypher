// Removes the vectors of entities whose text is (still) one that has none: the fence is judged under the entity's lock.
// parameters: writes [{uid, hash, source}], sorted by uid, `node` in place of `source` as in graph/write_vectors;
//             properties (names of the source properties)
// rows:       uid, hash of each entity that has no vector now
// locks:      entities in the order of `writes`, by the write of `_lock`
UNWIND $writes AS row
MATCH (n:__LABEL__ {__KEY__: row.uid})
SET n._lock = true
REMOVE n._lock
WITH row, n
WHERE n.__KEY__ = row.uid AND n.validTo IS NULL AND CASE
  WHEN row.node IS NOT NULL THEN elementId(n) = row.node
  ELSE all(i IN range(0, size($properties) - 1)
    WHERE n[$properties[i]] = row.source[i] OR n[$properties[i]] IS NULL AND row.source[i] IS NULL)
END
REMOVE n.embedding, n.embedding_model, n.embedding_hash, n.embedded_at, n.embedding_truncated, n:EmbedPending
RETURN DISTINCT row.uid AS uid, row.hash AS hash
