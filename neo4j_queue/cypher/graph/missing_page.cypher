// One page of the current entities that have no vector, in the order of the key.
// parameters: after (key, excluded), until (key), limit, pending (those of the outbox too?),
//             properties (names of the source properties), model
// packed:     as of graph/read_texts
// locks:      none
// Without the hint a server that has just been emptied scans the label, less those of the other one, and sorts.
MATCH (n:__LABEL__)
USING INDEX n:__LABEL__(__KEY__)
WHERE n.__KEY__ > $after AND n.__KEY__ <= $until AND n.__DELETED__ IS NULL AND n.__VECTOR__ IS NULL
  AND ($pending OR NOT n:EmbedPending)
  AND (n.__KEY__ IS :: STRING NOT NULL OR n.__KEY__ = toIntegerOrNull(n.__KEY__))
WITH n ORDER BY n.__KEY__ LIMIT $limit
RETURN collect({key: n.__KEY__, source: [name IN $properties | n[name]], width: null,
  hash: n.__VECTOR_HASH__, model: n.__VECTOR_MODEL__, deleted: false}) AS rows
