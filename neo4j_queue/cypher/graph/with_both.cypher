// How many of the first so many nodes with one label have the other one too.
// parameters: most (nodes looked at)
// rows:       one: looked (nodes looked at), found (of these with both labels)
// locks:      none
MATCH (n:__AMONG__)
WITH n LIMIT $most
RETURN count(n) AS looked, count(CASE WHEN n:__LABEL__ THEN 1 END) AS found
