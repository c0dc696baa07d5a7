// Nodes of one timestamp: a statement that writes a million nodes gives all of them the same. The index has no order
// within it that a statement could go on from, so the numbers of the nodes are the order.
// parameters: least (inclusive), most (exclusive), beyond (internal number, excluded), limit
// packed:     node (internal number)
// locks:      none
MATCH (n:__LABEL__)
USING INDEX n:__LABEL__(__CHANGED__)
WHERE n.__CHANGED__ >= $least AND n.__CHANGED__ < $most AND id(n) > $beyond
WITH id(n) AS node ORDER BY node LIMIT $limit
RETURN collect({node: node}) AS rows
