// The failed jobs of a stretch of time, for a retry.
// parameters: category, reason, status (HTTP), each null = any; after, until (epoch ms, both included)
// rows:       id
// locks:      none
MATCH (j:EmbedJob)
WHERE j.status = 'failed' AND j.processed_at >= $after AND j.processed_at <= $until
WITH j
WHERE ($category IS NULL OR j.error_category = $category)
  AND ($reason IS NULL OR j.failure_reason = $reason)
  AND ($status IS NULL OR j.error_status = $status)
RETURN j.id AS id
