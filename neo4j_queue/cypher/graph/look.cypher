// Everything that a person asks about the entities of one key, soft-deleted ones too, by the index of the key.
// parameters: uid, properties (names of the source properties), most (nodes)
// packed:     labels, deleted, source, vector, model, hash, embedded_at (epoch ms), truncated, pending (in the outbox)
// locks:      none
MATCH (n:__LABEL__ {__KEY__: $uid})
WITH n LIMIT $most
RETURN collect({labels: labels(n), deleted: n.validTo IS NOT NULL, source: [name IN $properties | n[name]],
  vector: n.__VECTOR__, model: n.__VECTOR_MODEL__, hash: n.__VECTOR_HASH__, embedded_at: n.__VECTOR_AT__,
  truncated: coalesce(n.__VECTOR_TRUNCATED__, false), pending: n:EmbedPending}) AS rows
