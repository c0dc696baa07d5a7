// Merges properties into current entities; a null removes the property.
// parameters: rows [{keys, properties}], properties (names of the source properties), model
// packed:     as of graph/upsert; none for an entity that is not there
// locks:      entities in the order of `rows`, by the write of `_lock`
UNWIND $rows AS row
MATCH (n:__LABEL__)
WHERE n.__KEY__ IN [row.keys[0], row.keys[1]]
SET n._lock = true
REMOVE n._lock
WITH row, n
WHERE n.__KEY__ IN [row.keys[0], row.keys[1]] AND n.__DELETED__ IS NULL
WITH row, n, coalesce(any(
  key IN keys(row.properties)
  WHERE NOT (n[key] = row.properties[key] OR n[key] IS NULL AND row.properties[key] IS NULL)
), true) AS changed
SET n += row.properties
WITH changed, n, CASE WHEN n.__VECTOR_MODEL__ = $model AND n.__VECTOR__ IS :: LIST<FLOAT NOT NULL> NOT NULL
  THEN size(n.__VECTOR__) WHEN n.__VECTOR__ IS NOT NULL THEN 0 END AS width
RETURN collect({node: elementId(n), key: n.__KEY__, created: false, changed: changed,
  source: [name IN $properties | n[name]], width: width, hash: n.__VECTOR_HASH__,
  model: n.__VECTOR_MODEL__, pending: n:EmbedPending}) AS rows
