// One page of the current entities in the outbox that have no vector, in the order of the key.
// parameters: after (key, excluded), limit, properties (names of the source properties)
// rows:       as of graph/read_texts
// locks:      none
MATCH (n:EmbedPending)
USING INDEX n:EmbedPending(__KEY__)
WHERE n.__KEY__ > $after AND n:__LABEL__ AND n.validTo IS NULL AND n.embedding IS NULL
WITH n ORDER BY n.__KEY__ LIMIT $limit
RETURN n.__KEY__ AS uid, [name IN $properties | n[name]] AS source, false AS embedded, n.embedding_hash AS hash,
  n.embedding_model AS model, false AS deleted
