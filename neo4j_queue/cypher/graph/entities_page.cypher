// One page of all current entities, in the order of the key.
// Whether there is a vector is asked by itself: together with other properties the plan would read the whole vector.
// parameters: after (key, excluded), until (key), limit, properties (names of the source properties)
// packed:     as of graph/read_texts
// locks:      none
MATCH (n:__LABEL__)
WHERE n.__KEY__ > $after AND n.__KEY__ <= $until AND n.validTo IS NULL
WITH n, n.embedding IS NOT NULL AS embedded ORDER BY n.__KEY__ LIMIT $limit
RETURN collect({uid: n.__KEY__, source: [name IN $properties | n[name]], embedded: embedded,
  hash: n.embedding_hash, model: n.embedding_model, deleted: false}) AS rows
