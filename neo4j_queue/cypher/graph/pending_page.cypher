// One page of the outbox, in the order of the key.
// parameters: after (key, excluded), limit, properties (names of the source properties)
// rows:       as of graph/read_texts
// locks:      none
MATCH (n:EmbedPending)
USING INDEX n:EmbedPending(__KEY__)
WHERE n.__KEY__ > $after AND n:__LABEL__
WITH n ORDER BY n.__KEY__ LIMIT $limit
RETURN n.__KEY__ AS uid, [name IN $properties | n[name]] AS source, n.embedding IS NOT NULL AS embedded,
  n.embedding_hash AS hash, n.embedding_model AS model, n.validTo IS NOT NULL AS deleted
