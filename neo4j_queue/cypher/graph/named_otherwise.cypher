// The first node of a label that has this text in another property than the key, among its first nodes.
// parameters: text, properties (their names), most (nodes looked at)
// rows:       at most one: property, uid (its key, as text; null = it has none), deleted
// locks:      none
MATCH (n:__LABEL__)
WITH n LIMIT $most
WITH n, [name IN $properties WHERE n[name] = $text] AS found
WHERE size(found) > 0
RETURN found[0] AS property, toStringOrNull(n.__KEY__) AS uid, n.validTo IS NOT NULL AS deleted LIMIT 1
