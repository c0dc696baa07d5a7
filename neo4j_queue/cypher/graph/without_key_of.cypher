// How many of the first so many entities can never be embedded, since their key is missing, empty, or neither a text nor a
// whole number.
// parameters: most (entities to look at)
// rows:       one: nodes (all of the label), entities
// locks:      none
WITH COUNT { MATCH (n:__LABEL__) } AS nodes
CALL () {
  MATCH (n:__LABEL__)
  WITH n LIMIT $most
  WHERE NOT coalesce(n.__KEY__ > '' OR n.__KEY__ = toIntegerOrNull(n.__KEY__), false) AND n.__DELETED__ IS NULL
  RETURN count(n) AS entities
}
RETURN nodes, entities
