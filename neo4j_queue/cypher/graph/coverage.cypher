// How much of the graph has a vector.
// parameters: model
// rows:       one: entities, missing, fresh
// locks:      none
MATCH (n:__LABEL__)
WHERE n.validTo IS NULL
WITH n.embedding IS NULL AS missing, n.embedding_model = $model AND NOT n:EmbedPending AS current, count(*) AS entities
RETURN sum(entities) AS entities, sum(CASE WHEN missing THEN entities ELSE 0 END) AS missing,
  sum(CASE WHEN NOT missing AND current THEN entities ELSE 0 END) AS fresh
