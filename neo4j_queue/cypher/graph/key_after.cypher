// The key that stands so many entities further on in the order of the keys, straight from the index.
// parameters: after (key, excluded), skip (entities between it and the one that is wanted)
// rows:       at most one: key
// locks:      none
MATCH (n:__LABEL__)
USING INDEX n:__LABEL__(__KEY__)
WHERE n.__KEY__ > $after
RETURN n.__KEY__ AS key ORDER BY key SKIP $skip LIMIT 1
