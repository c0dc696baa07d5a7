// How many entities cannot be embedded, since their key is missing or is not a text.
// parameters: none
// rows:       one: entities
// locks:      none
MATCH (n:__LABEL__)
WHERE n.__KEY__ IS NULL OR NOT n.__KEY__ IS :: STRING
RETURN count(*) AS entities
