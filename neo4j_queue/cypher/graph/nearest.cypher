// The entities whose vectors are nearest to one, of those that pass the filters.
// parameters: index, candidates (how many the index is asked for, before deleted ones, such of other models and such that
//             the filters leave out), limit, vector, model, labels, where (property -> value, null = has none), since
//             (epoch ms or null: the vector was made since then, or the change waits for it)
// rows:       one: found (candidates the index had), current (those that are entities with a vector of the model), hits
//             [{node (element id), score}], best first
// locks:      none
CALL db.index.vector.queryNodes($index, $candidates, $vector) YIELD node AS n, score
WITH n, score, n:__LABEL__ AND (n.__KEY__ IS :: STRING NOT NULL OR n.__KEY__ = toIntegerOrNull(n.__KEY__))
  AND n.__DELETED__ IS NULL AND n.__VECTOR_MODEL__ = $model AS counts
WITH n, score, counts, counts
  AND all(label IN $labels WHERE label IN labels(n))
  AND all(name IN keys($where)
    WHERE CASE WHEN $where[name] IS NULL THEN n[name] IS NULL ELSE n[name] = $where[name] END)
  AND ($since IS NULL OR n.__VECTOR_AT__ >= $since OR n:EmbedPending) AS wanted
ORDER BY score DESC
RETURN count(*) AS found, count(CASE WHEN counts THEN true END) AS current,
  collect(CASE WHEN wanted THEN {node: elementId(n), score: score} END)[..$limit] AS hits
