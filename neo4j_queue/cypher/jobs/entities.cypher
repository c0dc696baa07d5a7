// The entities that jobs of one state are for, of so many jobs as are looked at, however many there are.
// parameters: status, most
// rows:       entity_uid
// locks:      none
MATCH (j:EmbedJob) WHERE j.status = $status AND j.priority >= 0 AND j.available_at >= 0
WITH j LIMIT $most
RETURN DISTINCT j.entity_uid AS entity_uid
