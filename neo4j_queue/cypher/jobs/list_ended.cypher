// Jobs of one state that have ended, the last to end first: the index of when jobs ended, read backwards.
// parameters: status, since (epoch ms), limit
// rows:       job (all properties)
// locks:      none
MATCH (j:EmbedJob)
WHERE j.status = $status AND j.processed_at >= $since
RETURN j {.*} AS job ORDER BY j.status DESC, j.processed_at DESC LIMIT $limit
