// The running jobs with the lease that holds each, for an operator who takes some back.
// parameters: none
// rows:       id, entity_uid, token, worker (null = not started), since (when its work began, else when it was leased)
// locks:      none
MATCH (j:EmbedJob) WHERE j.status = 'processing' AND j.priority >= 0 AND j.available_at >= 0
MATCH (l:EmbedLease {token: j.lease_token})
RETURN j.id AS id, j.entity_uid AS entity_uid, l.token AS token, l.worker AS worker,
  coalesce(l.started_at, l.leased_at) AS since
ORDER BY since, id
