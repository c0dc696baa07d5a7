// The jobs whose retention is over.
// parameters: cutoff (epoch ms; ended before it = expired), limit
// rows:       id
// locks:      none
UNWIND ['completed', 'failed'] AS status
CALL (status) {
  MATCH (j:EmbedJob) WHERE j.status = status AND j.processed_at < $cutoff
  RETURN j.id AS id LIMIT $limit
}
RETURN id LIMIT $limit
