// Jobs of these ids that have failed for good.
// parameters: ids
// rows:       job (all properties), in the order of the ids
// locks:      none
UNWIND range(0, size($ids) - 1) AS place
MATCH (j:EmbedJob {id: $ids[place]}) WHERE j.status = 'failed'
RETURN j {.*} AS job ORDER BY place
