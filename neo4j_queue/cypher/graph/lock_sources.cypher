// Locks current entities and reads their source values, for a fence that only the client can judge exactly.
// parameters: names [keys], sorted; properties (names of the source properties)
// packed:     node (element id), uid, source
// locks:      entities in the order of `names`, by the write of `_lock`
UNWIND $names AS keys
MATCH (n:__LABEL__)
WHERE n.__KEY__ IN [keys[0], keys[1]]
SET n._lock = true
REMOVE n._lock
WITH keys, n
WHERE n.__KEY__ IN [keys[0], keys[1]] AND n.__DELETED__ IS NULL
RETURN collect({node: elementId(n), uid: keys[0], source: [name IN $properties | n[name]]}) AS rows
