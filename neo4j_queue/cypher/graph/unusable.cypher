// How many of the first so many vectors of a model have another length than the model's, or are no vectors.
// parameters: model, dimensions, sample (vectors to look at)
// rows:       one: entities, example (a key, or null)
// locks:      none
MATCH (n:__LABEL__)
WHERE n.__VECTOR_HASH__ > '' AND n.__VECTOR_MODEL__ = $model AND n.__DELETED__ IS NULL
WITH n LIMIT $sample
WHERE NOT n.__VECTOR__ IS :: LIST<FLOAT NOT NULL> NOT NULL OR size(n.__VECTOR__) <> $dimensions
RETURN count(n) AS entities, min(n.__KEY__) AS example
