// How much of the graph has a vector. Three counts, since a plan that asks twice for `embedding` reads the whole vector of
// each entity to keep it at hand: sixty times slower.
// parameters: model
// rows:       one: entities, missing, fresh
// locks:      none
RETURN COUNT { MATCH (n:__LABEL__) WHERE n.__DELETED__ IS NULL } AS entities,
  COUNT { MATCH (n:__LABEL__) WHERE n.__DELETED__ IS NULL AND n.__VECTOR__ IS NULL } AS missing,
  COUNT {
    MATCH (n:__LABEL__)
    WHERE n.__DELETED__ IS NULL AND n.__VECTOR__ IS NOT NULL AND n.__VECTOR_MODEL__ = $model AND NOT n:EmbedPending
  } AS fresh
