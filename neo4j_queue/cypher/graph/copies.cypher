// Vectors that entities carry for some texts, one for each text.
// parameters: hashes (content hashes), model
// rows:       hash, vector
// locks:      none
UNWIND $hashes AS hash
CALL (hash) {
  MATCH (n:__LABEL__)
  WHERE n.embedding_hash = hash AND n.embedding_model = $model AND n.embedding IS NOT NULL
  RETURN n.embedding AS vector LIMIT 1
}
RETURN hash, vector
