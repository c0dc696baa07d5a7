// Gives one page of completed jobs the label by which they are counted, where a program of another version left it out.
// parameters: after (epoch ms; jobs that ended at or after it), limit
// rows:       one: until (when the last job of the page ended; null: there was none), jobs (of the page), mended
// locks:      jobs without the label
CALL () {
  MATCH (j:EmbedJob) WHERE j.status = 'completed' AND j.processed_at >= $after
  RETURN j, j.processed_at AS at ORDER BY j.status, j.processed_at LIMIT $limit
}
WITH j, at, NOT j:EmbedCompleted AS bare
FOREACH (_ IN CASE WHEN bare THEN [1] ELSE [] END |
  SET j._lock = true
  FOREACH (_ IN CASE WHEN j.status = 'completed' THEN [1] ELSE [] END | SET j:EmbedCompleted))
RETURN max(at) AS until, count(*) AS jobs, count(CASE WHEN bare THEN 1 END) AS mended
