// Whether any job has not ended.
// parameters: none
// rows:       one: found
// locks:      none
RETURN EXISTS { MATCH (j:EmbedJob) WHERE j.status = 'pending' AND j.priority >= 0 AND j.available_at >= 0 RETURN j }
  OR EXISTS { MATCH (j:EmbedJob) WHERE j.status = 'processing' AND j.priority >= 0 AND j.available_at >= 0 RETURN j }
  AS found
