// The source values of entities, and whose vector they carry. A key that several entities share has several rows.
// Whether there is a vector is asked by itself: together with other properties the plan would read the whole vector.
// parameters: uids, properties (names of the source properties)
// packed:     uid, source, embedded, hash, model, deleted
// locks:      none
UNWIND $uids AS uid
MATCH (n:__LABEL__ {__KEY__: uid})
WITH uid, n, n.embedding IS NOT NULL AS embedded
RETURN collect({uid: uid, source: [name IN $properties | n[name]], embedded: embedded, hash: n.embedding_hash,
  model: n.embedding_model, deleted: n.validTo IS NOT NULL}) AS rows
