// A current entity without its vector.
// parameters: keys
// rows:       labels, properties, embedded, pending
// locks:      none
MATCH (n:__LABEL__)
WHERE n.__KEY__ IN [$keys[0], $keys[1]] AND n.__DELETED__ IS NULL
RETURN labels(n) AS labels, n {.*, __VECTOR__: null} AS properties, n.__VECTOR__ IS NOT NULL AS embedded,
  n:EmbedPending AS pending
