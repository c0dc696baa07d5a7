// Lets vectors count as stale, whatever text they were made of. They stay until there are others.
// parameters: nodes (element ids)
// rows:       none
// locks:      none that the caller does not hold (graph/lock_vectors)
UNWIND $nodes AS node
MATCH (n:__LABEL__) WHERE elementId(n) = node
SET n:EmbedPending
REMOVE n.__VECTOR_HASH__
