// Writes vectors whose text is still the entity's: the fence is judged under the entity's lock.
// parameters: writes [{keys, hash, vector, source, truncated}], sorted by name; where values do not survive the way to a client and
//             back (numbers, temporals), `node` (element id) stands for a fence judged by the caller in this transaction;
//             properties (names of the source properties), model, property (name of the vector property)
// packed:     uid, hash of each vector written
// locks:      entities in the order of `writes`, by the write of `_lock`. It must be a write of a value: removing a
//             property whose name the database has never seen takes no lock, and the fence would be judged on the values
//             before the wait.
UNWIND $writes AS row
MATCH (n:__LABEL__)
WHERE n.__KEY__ IN [row.keys[0], row.keys[1]]
SET n._lock = true
REMOVE n._lock
WITH row, n
WHERE n.__KEY__ IN [row.keys[0], row.keys[1]] AND n.__DELETED__ IS NULL AND CASE
  WHEN row.node IS NOT NULL THEN elementId(n) = row.node
  ELSE all(i IN range(0, size($properties) - 1)
    WHERE n[$properties[i]] = row.source[i] OR n[$properties[i]] IS NULL AND row.source[i] IS NULL)
END
CALL db.create.setNodeVectorProperty(n, $property, row.vector)
SET n.__VECTOR_MODEL__ = $model, n.__VECTOR_HASH__ = row.hash, n.__VECTOR_AT__ = datetime.realtime().epochMillis,
  n.__VECTOR_TRUNCATED__ = CASE WHEN row.truncated THEN true END
REMOVE n:EmbedPending
RETURN collect(DISTINCT {uid: row.keys[0], hash: row.hash}) AS rows
