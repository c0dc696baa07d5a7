// Jobs, newest first within a page, optionally of one state.
// parameters: status (null = any), entity_uid (null = any), limit
// rows:       job (all properties)
// locks:      none
MATCH (j:EmbedJob)
WHERE j.id IS NOT NULL AND ($status IS NULL OR j.status = $status)
  AND ($entity_uid IS NULL OR j.entity_uid = $entity_uid)
RETURN j {.*} AS job ORDER BY j.created_at DESC LIMIT $limit
