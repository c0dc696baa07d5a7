// How many jobs have failed for good, which the server keeps at hand, and what the log last said of it.
// parameters: none
// rows:       one: jobs, told (the log said that they are above the limit)
// locks:      none
MATCH (c:QueueControl {name: 'embedding'})
CALL () { MATCH (j:EmbedFailed) RETURN count(j) AS jobs }
RETURN jobs, coalesce(c.dead_letters_told, false) AS told
