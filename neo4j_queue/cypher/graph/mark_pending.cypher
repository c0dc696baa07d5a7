// Puts entities into the outbox.
// parameters: nodes (element ids)
// rows:       none
// locks:      entities, held already by the transaction that changed them
UNWIND $nodes AS node
MATCH (n) WHERE elementId(n) = node
SET n:EmbedPending
