// When the failed job that stands so many jobs further back had ended, straight from the index.
// parameters: before (epoch ms, included), skip (jobs after it)
// rows:       at most one: since
// locks:      none
MATCH (j:EmbedJob)
WHERE j.status = 'failed' AND j.processed_at <= $before
WITH j ORDER BY j.status DESC, j.processed_at DESC SKIP $skip LIMIT 1
RETURN j.processed_at AS since
