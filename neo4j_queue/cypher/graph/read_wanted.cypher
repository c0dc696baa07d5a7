// The texts behind some jobs, as graph/read_texts, and whether any entity seems to carry the vector of a wanted version.
// Only its presence is looked for: most texts are new, and a vector is some kilobytes.
// parameters: wanted [{uid, versions (the first digits of content hashes)}], properties (names of the source
//             properties), model
// packed:     uid, source, embedded, hash, model, deleted, known
// locks:      none
UNWIND $wanted AS row
MATCH (n:__LABEL__ {__KEY__: row.uid})
WITH row, n, n.embedding IS NOT NULL AS embedded
WITH row, n, embedded, EXISTS {
  UNWIND row.versions AS version
  MATCH (other:__LABEL__) WHERE other.embedding_hash STARTS WITH version AND other.embedding_model = $model
  RETURN other
} AS known
RETURN collect({uid: row.uid, source: [name IN $properties | n[name]], embedded: embedded,
  hash: n.embedding_hash, model: n.embedding_model, deleted: n.validTo IS NOT NULL, known: known}) AS rows
