// Of the jobs that failed last, those that are meant: the index of when jobs ended, read backwards, and no further than
// `among`, however few of them match.
// parameters: among, limit, category, reason, status (HTTP), error_type, quota (see jobs/failed), each null = any;
//             after, until (epoch ms, both included)
// rows:       id, the last to fail first
// locks:      none
MATCH (j:EmbedJob)
WHERE j.status = 'failed' AND j.processed_at >= $after AND j.processed_at <= $until
WITH j ORDER BY j.status DESC, j.processed_at DESC LIMIT $among
WITH j
WHERE ($category IS NULL OR j.error_category = $category)
  AND ($reason IS NULL OR j.failure_reason = $reason)
  AND ($status IS NULL OR j.error_status = $status)
  AND ($error_type IS NULL OR toLower(j.error_type) = toLower($error_type))
  AND ($quota IS NULL OR j.error_status IN [402, 429] OR j.error =~ $quota)
RETURN j.id AS id ORDER BY j.processed_at DESC LIMIT $limit
