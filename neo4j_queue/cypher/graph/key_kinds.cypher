// Which kinds of keys the entities have, straight from the index, and the keys that some names have.
// parameters: names [keys], most (numbers to look at: decimal ones are no keys)
// rows:       one: texts, numbers (are there any), there (keys)
// locks:      none
RETURN EXISTS { MATCH (n:__LABEL__) WHERE n.__KEY__ > '' } AS texts,
  EXISTS {
    MATCH (n:__LABEL__) WHERE n.__KEY__ > -Infinity
    WITH n LIMIT $most WHERE n.__KEY__ = toIntegerOrNull(n.__KEY__)
    RETURN n
  } AS numbers,
  COLLECT {
    UNWIND $names AS keys
    MATCH (n:__LABEL__) WHERE n.__KEY__ IN [keys[0], keys[1]]
    RETURN n.__KEY__
  } AS there
