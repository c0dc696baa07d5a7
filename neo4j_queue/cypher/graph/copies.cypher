// Vectors that entities carry for some texts, one for each text.
// parameters: hashes (content hashes), model
// rows:       hash, vector
// locks:      none
UNWIND $hashes AS hash
CALL (hash) {
  MATCH (n:__LABEL__)
  WHERE n.__VECTOR_HASH__ = hash AND n.__VECTOR_MODEL__ = $model AND n.__VECTOR__ IS NOT NULL
  RETURN n.__VECTOR__ AS vector LIMIT 1
}
RETURN hash, vector
