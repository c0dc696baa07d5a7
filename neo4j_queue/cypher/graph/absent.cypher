// Those of the keys that no entity has, soft-deleted ones counted as there; the index of the key is there since `init`.
// parameters: names [keys], most
// rows:       uid
// locks:      none
UNWIND $names AS keys
OPTIONAL MATCH (n:__LABEL__) USING INDEX n:__LABEL__(__KEY__)
WHERE n.__KEY__ IN [keys[0], keys[1]]
WITH keys, n WHERE n IS NULL
RETURN keys[0] AS uid LIMIT $most
