// Keys of current entities that begin with one of these texts, for a name that was typed a little wrong; by the index of
// the key.
// parameters: beginnings, most (keys for each of them)
// rows:       uid
// locks:      none
UNWIND $beginnings AS beginning
CALL (beginning) {
  MATCH (n:__LABEL__) WHERE n.__KEY__ STARTS WITH beginning AND n.__DELETED__ IS NULL
  RETURN n.__KEY__ AS uid LIMIT $most
}
RETURN DISTINCT uid
