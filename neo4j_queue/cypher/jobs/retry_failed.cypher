// One page of failed jobs back to `pending`, as if they were new.
// parameters: category, reason, status (HTTP), each null = any; ids (null = any), limit, now
// rows:       id, entity_uid
// locks:      jobs in the order of their ids
MATCH (j:EmbedJob)
WHERE j.status = 'failed' AND j.processed_at >= 0
  AND ($category IS NULL OR j.error_category = $category)
  AND ($reason IS NULL OR j.failure_reason = $reason)
  AND ($status IS NULL OR j.error_status = $status)
  AND ($ids IS NULL OR j.id IN $ids)
WITH j LIMIT $limit
WITH j ORDER BY j.id
SET j._lock = true
WITH j WHERE j.status = 'failed'
SET j.status = 'pending', j.available_at = coalesce($now, datetime.realtime().epochMillis), j.attempts = 0,
  j.crashes = 0
REMOVE j.processed_at, j.outcome, j.failure_reason, j.error, j.error_category, j.error_type, j.error_status,
  j.error_stack
RETURN j.id AS id, j.entity_uid AS entity_uid
