// How much of the graph has a vector. Three counts, since a plan that asks twice for `embedding` reads the whole vector of
// each entity to keep it at hand: sixty times slower.
// parameters: model
// rows:       one: entities, missing, fresh
// locks:      none
RETURN COUNT { MATCH (n:__LABEL__) WHERE n.validTo IS NULL } AS entities,
  COUNT { MATCH (n:__LABEL__) WHERE n.validTo IS NULL AND n.embedding IS NULL } AS missing,
  COUNT {
    MATCH (n:__LABEL__)
    WHERE n.validTo IS NULL AND n.embedding IS NOT NULL AND n.embedding_model = $model AND NOT n:EmbedPending
  } AS fresh
