// Takes entities out of the outbox: their vector is that of the text they have again.
// parameters: nodes (element ids)
// rows:       none
// locks:      entities, held already by the transaction that changed them
UNWIND $nodes AS node
MATCH (n) WHERE elementId(n) = node
REMOVE n:EmbedPending
