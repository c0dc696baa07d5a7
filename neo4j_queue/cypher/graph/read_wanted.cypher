// The texts behind some jobs, as graph/read_texts, and whether any entity seems to carry the vector of a wanted version.
// Only its presence is looked for: most texts are new, and a vector is some kilobytes.
// parameters: wanted [{uid, versions (the first digits of content hashes)}], properties (names of the source
//             properties), model
// rows:       uid, source, embedded, hash, model, deleted, known
// locks:      none
UNWIND $wanted AS row
MATCH (n:__LABEL__ {__KEY__: row.uid})
WITH row, n, n.embedding IS NOT NULL AS embedded
RETURN row.uid AS uid, [name IN $properties | n[name]] AS source, embedded, n.embedding_hash AS hash,
  n.embedding_model AS model, n.validTo IS NOT NULL AS deleted,
  EXISTS {
    UNWIND row.versions AS version
    MATCH (other:__LABEL__) WHERE other.embedding_hash STARTS WITH version AND other.embedding_model = $model
    RETURN other
  } AS known
