// One page of leases that ended long ago; the last day is kept for operators and for the rate budget.
// parameters: cutoff, limit
// rows:       one: removed
// locks:      lease nodes
MATCH (l:EmbedLease) WHERE l.finished_at < $cutoff
WITH l LIMIT $limit
DELETE l
RETURN count(*) AS removed
