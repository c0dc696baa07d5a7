// Those of the keys that no entity has, soft-deleted ones counted as there; the index of the key is there since `init`.
// parameters: uids, most
// rows:       uid
// locks:      none
UNWIND $uids AS uid
OPTIONAL MATCH (n:__LABEL__ {__KEY__: uid}) USING INDEX n:__LABEL__(__KEY__)
WITH uid, n WHERE n IS NULL
RETURN uid LIMIT $most
