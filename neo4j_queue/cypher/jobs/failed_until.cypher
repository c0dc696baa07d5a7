// When the failed job that stands so many jobs further on had ended, straight from the index.
// parameters: after (epoch ms, included), skip (jobs before it)
// rows:       at most one: until
// locks:      none
MATCH (j:EmbedJob)
WHERE j.status = 'failed' AND j.processed_at >= $after
WITH j ORDER BY j.status, j.processed_at SKIP $skip LIMIT 1
RETURN j.processed_at AS until
