// How many current entities can never be embedded, since their key is missing, empty or not a text.
// The counts of the label and of its index differ when there are any; only then the nodes are looked at.
// parameters: none
// rows:       one: entities
// locks:      none
WITH COUNT { MATCH (n:__AMONG__) } - COUNT { MATCH (n:__AMONG__) WHERE n.__KEY__ > '' } AS others
CALL (others) {
  WITH others WHERE others > 0
  MATCH (n:__AMONG__)
  WHERE n:__LABEL__ AND (n.__KEY__ IS NULL OR NOT n.__KEY__ IS :: STRING OR n.__KEY__ = '') AND n.validTo IS NULL
  RETURN count(n) AS entities
}
RETURN entities
