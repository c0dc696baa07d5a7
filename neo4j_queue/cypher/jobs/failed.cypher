// Some failed jobs, for a retry.
// parameters: category, reason, status (HTTP), each null = any; limit
// rows:       id
// locks:      none
MATCH (j:EmbedJob)
WHERE j.status = 'failed' AND j.processed_at >= 0
  AND ($category IS NULL OR j.error_category = $category)
  AND ($reason IS NULL OR j.failure_reason = $reason)
  AND ($status IS NULL OR j.error_status = $status)
RETURN j.id AS id LIMIT $limit
