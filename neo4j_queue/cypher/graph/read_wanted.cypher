// The texts behind some jobs, as graph/read_texts, and whether any entity seems to carry the vector of a wanted version.
// Only its presence is looked for: most texts are new, and a vector is some kilobytes.
// parameters: wanted [{keys, versions (the first digits of content hashes)}], properties (names of the source
//             properties), model
// packed:     key, source, width, hash, model, deleted, known
// locks:      none
UNWIND $wanted AS row
MATCH (n:__LABEL__)
WHERE n.__KEY__ IN [row.keys[0], row.keys[1]]
WITH row, n, CASE WHEN n.__VECTOR_MODEL__ = $model AND n.__VECTOR__ IS :: LIST<FLOAT NOT NULL> NOT NULL
  THEN size(n.__VECTOR__) WHEN n.__VECTOR__ IS NOT NULL THEN 0 END AS width
WITH n, width, EXISTS {
  UNWIND row.versions AS version
  MATCH (other:__LABEL__) WHERE other.__VECTOR_HASH__ STARTS WITH version AND other.__VECTOR_MODEL__ = $model
  RETURN other
} AS known
RETURN collect({key: n.__KEY__, source: [name IN $properties | n[name]], width: width,
  hash: n.__VECTOR_HASH__, model: n.__VECTOR_MODEL__, deleted: n.__DELETED__ IS NOT NULL, known: known}) AS rows
