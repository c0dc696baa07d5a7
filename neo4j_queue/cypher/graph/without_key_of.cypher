// How many of the first so many entities can never be embedded, since their key is missing, empty or not a text.
// parameters: most (entities to look at)
// rows:       one: nodes (all of the label), entities
// locks:      none
WITH COUNT { MATCH (n:__LABEL__) } AS nodes
CALL () {
  MATCH (n:__LABEL__)
  WITH n LIMIT $most
  WHERE (n.__KEY__ IS NULL OR NOT n.__KEY__ IS :: STRING OR n.__KEY__ = '') AND n.validTo IS NULL
  RETURN count(n) AS entities
}
RETURN nodes, entities
