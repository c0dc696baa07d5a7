// Entities that a search has found, without their vectors.
// parameters: nodes (element ids)
// rows:       node, key, labels, properties, embedded (there is a vector), pending
// locks:      none
UNWIND $nodes AS node
MATCH (n:__LABEL__)
WHERE elementId(n) = node
  AND (n.__KEY__ IS :: STRING NOT NULL OR n.__KEY__ = toIntegerOrNull(n.__KEY__)) AND n.__DELETED__ IS NULL
RETURN node, n.__KEY__ AS key, labels(n) AS labels, n {.*, __VECTOR__: null} AS properties,
  n.__VECTOR__ IS NOT NULL AS embedded, n:EmbedPending AS pending
