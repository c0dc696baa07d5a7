// Everything that a person asks about the entities of one name, soft-deleted ones too, by the index of the key.
// parameters: keys, properties (names of the source properties), timestamps (names of properties), most (nodes)
// packed:     labels, deleted, source, vector, model, hash, embedded_at (epoch ms), truncated, pending (in the outbox), times
//             (values of `timestamps`)
// locks:      none
MATCH (n:__LABEL__) WHERE n.__KEY__ IN [$keys[0], $keys[1]]
WITH n LIMIT $most
RETURN collect({labels: labels(n), deleted: n.__DELETED__ IS NOT NULL, source: [name IN $properties | n[name]],
  vector: n.__VECTOR__, model: n.__VECTOR_MODEL__, hash: n.__VECTOR_HASH__, embedded_at: n.__VECTOR_AT__,
  truncated: coalesce(n.__VECTOR_TRUNCATED__, false), pending: n:EmbedPending,
  times: [name IN $timestamps | n[name]]}) AS rows
