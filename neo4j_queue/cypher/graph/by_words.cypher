// The entities whose text holds words of a query, of those that pass the filters.
// parameters: index, words (Lucene syntax), candidates (how many the index is asked for, before deleted ones and such that
//             the filters leave out), limit, labels, where (property -> value, null = has none), since (epoch ms or null:
//             the vector was made since then, or the change waits for it)
// rows:       one: found (candidates the index had), hits [{node (element id), score}], best first
// locks:      none
CALL db.index.fulltext.queryNodes($index, $words, {limit: $candidates}) YIELD node AS n, score
WITH n, score, n:__LABEL__ AND (n.__KEY__ IS :: STRING NOT NULL OR n.__KEY__ = toIntegerOrNull(n.__KEY__))
  AND n.__DELETED__ IS NULL
  AND all(label IN $labels WHERE label IN labels(n))
  AND all(name IN keys($where)
    WHERE CASE WHEN $where[name] IS NULL THEN n[name] IS NULL ELSE n[name] = $where[name] END)
  AND ($since IS NULL OR n.__VECTOR_AT__ >= $since OR n:EmbedPending) AS wanted
ORDER BY score DESC
RETURN count(*) AS found, collect(CASE WHEN wanted THEN {node: elementId(n), score: score} END)[..$limit] AS hits
