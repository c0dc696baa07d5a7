// Removes the vectors of entities whose text has none; the caller has locked them in this transaction and judged their
// text (graph/lock_sources).
// parameters: writes [{keys, hash, node (element id)}]
// rows:       uid, hash of each entity that has no vector now
// locks:      none that the caller does not hold
UNWIND $writes AS row
MATCH (n:__LABEL__) WHERE elementId(n) = row.node
REMOVE n.__VECTOR__, n.__VECTOR_MODEL__, n.__VECTOR_HASH__, n.__VECTOR_AT__, n.__VECTOR_TRUNCATED__, n:EmbedPending
RETURN DISTINCT row.keys[0] AS uid, row.hash AS hash
