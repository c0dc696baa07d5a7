// How deep the queue was: one row a minute, a day at most.
// parameters: since, until (epoch ms, both included)
// rows:       at, pending, delayed, processing, failed, completed; the oldest first
// locks:      none
MATCH (s:EmbedSample) WHERE s.at >= $since AND s.at <= $until
RETURN s.at AS at, s.pending AS pending, s.delayed AS delayed, s.processing AS processing, s.failed AS failed,
  s.completed AS completed
ORDER BY at
