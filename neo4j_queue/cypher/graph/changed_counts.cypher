// How many entities have a timestamp within each of some bounds, straight from the index on it.
// parameters: bounds [{name, least (inclusive), most (exclusive)}], both of one type
// rows:       name, entities
// locks:      none
UNWIND $bounds AS bound
CALL (bound) {
  MATCH (n:__LABEL__)
  USING INDEX n:__LABEL__(__CHANGED__)
  WHERE n.__CHANGED__ >= bound.least AND n.__CHANGED__ < bound.most
  RETURN count(n) AS entities
}
RETURN bound.name AS name, entities
