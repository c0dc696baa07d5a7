// How often the failed jobs of a stretch of time failed alike, by day.
// parameters: category, reason, status (HTTP), error_type, quota (what the error must match, unless its status says so),
//             each null = any; after, until (epoch ms, both included), example_chars
// rows:       reason, category, error_type, status, day (since 1970, UTC), jobs, est_tokens, first_at, last_at,
//             example (the beginning of one of their errors), example_id (one of their ids)
// locks:      none
MATCH (j:EmbedJob)
WHERE j.status = 'failed' AND j.processed_at >= $after AND j.processed_at <= $until
WITH j
WHERE ($category IS NULL OR j.error_category = $category)
  AND ($reason IS NULL OR j.failure_reason = $reason)
  AND ($status IS NULL OR j.error_status = $status)
  AND ($error_type IS NULL OR toLower(j.error_type) = toLower($error_type))
  AND ($quota IS NULL OR j.error_status IN [402, 429] OR j.error =~ $quota)
RETURN j.failure_reason AS reason, j.error_category AS category, j.error_type AS error_type, j.error_status AS status,
  j.processed_at / 86400000 AS day, count(*) AS jobs, coalesce(sum(j.est_tokens), 0) AS est_tokens,
  min(j.processed_at) AS first_at, max(j.processed_at) AS last_at, min(left(j.error, $example_chars)) AS example,
  max(j.id) AS example_id
