// What the server knows of the entities without looking at one: it keeps the number of nodes with a label.
// parameters: none
// rows:       one: nodes (soft-deleted ones too), marks (nodes of any label whose change waits for its vector), now (epoch ms)
// locks:      none
RETURN COUNT { MATCH (n:__LABEL__) } AS nodes, COUNT { MATCH (n:EmbedPending) } AS marks,
  datetime.realtime().epochMillis AS now
