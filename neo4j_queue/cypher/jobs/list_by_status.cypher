// Jobs of one state, newest first. It looks at the jobs of this state alone.
// parameters: status, limit
// rows:       job (all properties)
// locks:      none
MATCH (j:EmbedJob)
WHERE j.status = $status AND j.priority >= 0 AND j.available_at >= 0
RETURN j {.*} AS job ORDER BY j.created_at DESC LIMIT $limit
