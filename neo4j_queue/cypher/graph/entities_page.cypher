// One page of all current entities, in the order of the key.
// width: the length of the vector; 0 where it is no vector of this model, null where there is none.
// parameters: after (key, excluded), until (key), limit, properties (names of the source properties), model
// packed:     as of graph/read_texts, and at (when the vector was made, epoch ms)
// locks:      none
MATCH (n:__LABEL__)
WHERE n.__KEY__ > $after AND n.__KEY__ <= $until AND n.__DELETED__ IS NULL
  AND (n.__KEY__ IS :: STRING NOT NULL OR n.__KEY__ = toIntegerOrNull(n.__KEY__))
WITH n ORDER BY n.__KEY__ LIMIT $limit
WITH n, CASE WHEN n.__VECTOR_MODEL__ = $model AND n.__VECTOR__ IS :: LIST<FLOAT NOT NULL> NOT NULL
  THEN size(n.__VECTOR__) WHEN n.__VECTOR__ IS NOT NULL THEN 0 END AS width
RETURN collect({key: n.__KEY__, source: [name IN $properties | n[name]], width: width,
  hash: n.__VECTOR_HASH__, model: n.__VECTOR_MODEL__, at: n.__VECTOR_AT__, deleted: false}) AS rows
