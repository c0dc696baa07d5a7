// A current entity without its vector.
// parameters: uid
// rows:       labels, properties, embedded, pending
// locks:      none
MATCH (n:__LABEL__ {__KEY__: $uid})
WHERE n.validTo IS NULL
RETURN labels(n) AS labels, n {.*, __VECTOR__: null} AS properties, n.__VECTOR__ IS NOT NULL AS embedded,
  n:EmbedPending AS pending
