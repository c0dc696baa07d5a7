// The first node of a label that has this name in another property than the key, among its first nodes.
// parameters: keys, properties (their names), most (nodes looked at)
// rows:       at most one: property, key (null = it has none), deleted
// locks:      none
MATCH (n:__LABEL__)
WITH n LIMIT $most
WITH n, [name IN $properties WHERE n[name] IN $keys] AS found
WHERE size(found) > 0
RETURN found[0] AS property, n.__KEY__ AS key, n.__DELETED__ IS NOT NULL AS deleted LIMIT 1
