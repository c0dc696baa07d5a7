// The entities whose vectors are nearest to one.
// parameters: index, candidates (how many the index is asked for, before deleted ones and such of other models are left
//             out), limit, vector, model
// rows:       one: found (candidates the index had), hits [{key, score, properties, labels}], best first
// locks:      none
CALL db.index.vector.queryNodes($index, $candidates, $vector) YIELD node AS n, score
WITH n, score ORDER BY score DESC
RETURN count(*) AS found, collect(
  CASE WHEN n:__LABEL__ AND (n.__KEY__ IS :: STRING NOT NULL OR n.__KEY__ = toIntegerOrNull(n.__KEY__))
    AND n.__DELETED__ IS NULL AND n.__VECTOR_MODEL__ = $model
  THEN {key: n.__KEY__, score: score, properties: n {.*, __VECTOR__: null}, labels: labels(n)} END
)[..$limit] AS hits
