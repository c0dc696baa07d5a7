// The first nodes whose timestamp is within bounds, in its order, straight from the index on it.
// parameters: least (inclusive), most (exclusive), both of one type; limit
// packed:     node (internal number), at (epoch ms; of a number the number itself)
// locks:      none
MATCH (n:__LABEL__)
USING INDEX n:__LABEL__(__CHANGED__)
WHERE n.__CHANGED__ >= $least AND n.__CHANGED__ < $most
WITH n, n.__CHANGED__ AS at ORDER BY at LIMIT $limit
RETURN collect({node: id(n), at: CASE
  WHEN at IS :: ZONED DATETIME THEN at.epochMillis
  WHEN at IS :: LOCAL DATETIME THEN datetime({datetime: at, timezone: 'Z'}).epochMillis
  WHEN at IS :: DATE THEN datetime({date: at, timezone: 'Z'}).epochMillis
  ELSE toInteger(floor(at)) END}) AS rows
