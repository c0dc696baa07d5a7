// The source values of entities, and whose vector they carry. A key that several entities share has several rows.
// width: the length of the vector; 0 where it is no vector of this model, null where there is none.
// parameters: names [keys], properties (names of the source properties), model
// packed:     key, source, width, hash, model, deleted
// locks:      none
UNWIND $names AS keys
MATCH (n:__LABEL__)
WHERE n.__KEY__ IN [keys[0], keys[1]]
WITH n, CASE WHEN n.__VECTOR_MODEL__ = $model AND n.__VECTOR__ IS :: LIST<FLOAT NOT NULL> NOT NULL
  THEN size(n.__VECTOR__) WHEN n.__VECTOR__ IS NOT NULL THEN 0 END AS width
RETURN collect({key: n.__KEY__, source: [name IN $properties | n[name]], width: width, hash: n.__VECTOR_HASH__,
  model: n.__VECTOR_MODEL__, deleted: n.__DELETED__ IS NOT NULL}) AS rows
