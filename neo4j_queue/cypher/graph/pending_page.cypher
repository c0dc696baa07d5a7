// One page of the outbox, in the order of the key.
// parameters: after (key, excluded), limit, properties (names of the source properties)
// packed:     as of graph/read_texts
// locks:      none
MATCH (n:EmbedPending)
USING INDEX n:EmbedPending(__KEY__)
WHERE n.__KEY__ > $after AND n:__LABEL__
WITH n ORDER BY n.__KEY__ LIMIT $limit
RETURN collect({uid: n.__KEY__, source: [name IN $properties | n[name]], embedded: n.embedding IS NOT NULL,
  hash: n.embedding_hash, model: n.embedding_model, deleted: n.validTo IS NOT NULL}) AS rows
