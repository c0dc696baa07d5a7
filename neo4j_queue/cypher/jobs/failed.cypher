// The failed jobs of a stretch of time that are meant.
// parameters: category, reason, status (HTTP), error_type, quota (what the error must match, unless its status says so),
//             each null = any; after, until (epoch ms, both included)
// rows:       id, at (when it failed)
// locks:      none
MATCH (j:EmbedJob)
WHERE j.status = 'failed' AND j.processed_at >= $after AND j.processed_at <= $until
WITH j
WHERE ($category IS NULL OR j.error_category = $category)
  AND ($reason IS NULL OR j.failure_reason = $reason)
  AND ($status IS NULL OR j.error_status = $status)
  AND ($error_type IS NULL OR toLower(j.error_type) = toLower($error_type))
  AND ($quota IS NULL OR j.error_status IN [402, 429] OR j.error =~ $quota)
RETURN j.id AS id, j.processed_at AS at
