// Jobs of one entity, newest first, optionally of one state; by the index of the jobs' key.
// parameters: entity_uid, status (null = any), since (epoch ms), limit
// rows:       job (all properties)
// locks:      none
MATCH (j:EmbedJob)
WHERE j.entity_uid = $entity_uid AND j.model IS NOT NULL AND j.version IS NOT NULL
  AND j.created_at >= $since AND ($status IS NULL OR j.status = $status)
RETURN j {.*} AS job ORDER BY j.created_at DESC LIMIT $limit
