// One page of the outbox, in the order of the key.
// parameters: after (key, excluded), until (key), limit, properties (names of the source properties), model
// packed:     as of graph/read_texts
// locks:      none
MATCH (n:EmbedPending)
USING INDEX n:EmbedPending(__KEY__)
WHERE n.__KEY__ > $after AND n.__KEY__ <= $until AND n:__LABEL__
  AND (n.__KEY__ IS :: STRING NOT NULL OR n.__KEY__ = toIntegerOrNull(n.__KEY__))
WITH n ORDER BY n.__KEY__ LIMIT $limit
WITH n, CASE WHEN n.__VECTOR_MODEL__ = $model AND n.__VECTOR__ IS :: LIST<FLOAT NOT NULL> NOT NULL
  THEN size(n.__VECTOR__) WHEN n.__VECTOR__ IS NOT NULL THEN 0 END AS width
RETURN collect({key: n.__KEY__, source: [name IN $properties | n[name]], width: width,
  hash: n.__VECTOR_HASH__, model: n.__VECTOR_MODEL__, deleted: n.__DELETED__ IS NOT NULL}) AS rows
