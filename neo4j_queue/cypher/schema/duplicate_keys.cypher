// How many keys several entities share, and one of them.
// parameters: none
// rows:       one: keys, example (null when there is none)
// locks:      none
MATCH (n:__LABEL__)
WHERE n.__KEY__ IS NOT NULL
WITH n.__KEY__ AS key, count(*) AS nodes
WHERE nodes > 1
RETURN count(*) AS keys, min(key) AS example
