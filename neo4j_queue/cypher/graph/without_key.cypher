// How many current entities can never be embedded, since their key is missing, empty, or neither a text nor a whole number.
// The counts of the label and of its index differ when there are any; only then the nodes are looked at.
// parameters: none
// rows:       one: entities
// locks:      none
WITH COUNT { MATCH (n:__AMONG__) } - COUNT { MATCH (n:__AMONG__) WHERE n.__KEY__ > '' }
  - COUNT { MATCH (n:__AMONG__) WHERE n.__KEY__ > -Infinity AND n.__KEY__ = toIntegerOrNull(n.__KEY__) } AS others
CALL (others) {
  WITH others WHERE others > 0
  MATCH (n:__AMONG__)
  WHERE n:__LABEL__ AND NOT coalesce(n.__KEY__ > '' OR n.__KEY__ = toIntegerOrNull(n.__KEY__), false)
    AND n.__DELETED__ IS NULL
  RETURN count(n) AS entities
}
RETURN entities
