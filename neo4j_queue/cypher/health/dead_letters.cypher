// Of what the jobs failed that failed for good last: the index of when jobs ended, read backwards, and no further than
// the limit.
// parameters: limit
// rows:       pattern ('CATEGORY:Type', or 'worker_lost'), jobs; the commonest first
// locks:      none
MATCH (j:EmbedJob)
WHERE j.status = 'failed' AND j.processed_at >= 0
WITH j ORDER BY j.status DESC, j.processed_at DESC LIMIT $limit
RETURN CASE j.failure_reason WHEN 'worker_lost' THEN 'worker_lost'
    ELSE coalesce(j.error_category, '?') + ':' + coalesce(j.error_type, '?') END AS pattern,
  count(*) AS jobs
ORDER BY jobs DESC, pattern
