// Jobs, newest first. There is no index for that: it looks at every job, which a person asks for at times.
// parameters: limit
// rows:       job (all properties)
// locks:      none
MATCH (j:EmbedJob) WHERE j.id IS NOT NULL
RETURN j {.*} AS job ORDER BY j.created_at DESC LIMIT $limit
