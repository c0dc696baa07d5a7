// One page of archive records past their age.
// parameters: cutoff, limit
// rows:       one: removed
// locks:      archive nodes
MATCH (a:EmbedArchive) WHERE a.failed_at < $cutoff
WITH a LIMIT $limit
DELETE a
RETURN count(*) AS removed
