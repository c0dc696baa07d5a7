// The greatest timestamp within each of some bounds, straight from the index on it.
// parameters: bounds [{name, least (inclusive), most (exclusive)}], both of one type
// rows:       name, top (epoch ms; of a number the number itself, of a text 0); none where there is no such value
// locks:      none
UNWIND $bounds AS bound
CALL (bound) {
  MATCH (n:__LABEL__)
  USING INDEX n:__LABEL__(__CHANGED__)
  WHERE n.__CHANGED__ >= bound.least AND n.__CHANGED__ < bound.most
  RETURN n.__CHANGED__ AS at ORDER BY at DESC LIMIT 1
}
RETURN bound.name AS name, CASE
  WHEN at IS :: ZONED DATETIME THEN at.epochMillis
  WHEN at IS :: LOCAL DATETIME THEN datetime({datetime: at, timezone: 'Z'}).epochMillis
  WHEN at IS :: DATE THEN datetime({date: at, timezone: 'Z'}).epochMillis
  WHEN at IS :: STRING THEN 0
  ELSE toInteger(floor(at)) END AS top
