// The texts of the current entities among some nodes.
// parameters: nodes (internal numbers), properties (names of the source properties), model
// packed:     as of graph/read_texts, and at (when the vector was made, epoch ms)
// locks:      none
UNWIND $nodes AS node
MATCH (n:__LABEL__)
WHERE id(n) = node AND n.__DELETED__ IS NULL
  AND (n.__KEY__ > '' OR n.__KEY__ = toIntegerOrNull(n.__KEY__))
WITH n, CASE WHEN n.__VECTOR_MODEL__ = $model AND n.__VECTOR__ IS :: LIST<FLOAT NOT NULL> NOT NULL
  THEN size(n.__VECTOR__) WHEN n.__VECTOR__ IS NOT NULL THEN 0 END AS width
RETURN collect({key: n.__KEY__, source: [name IN $properties | n[name]], width: width,
  hash: n.__VECTOR_HASH__, model: n.__VECTOR_MODEL__, at: n.__VECTOR_AT__, deleted: false}) AS rows
