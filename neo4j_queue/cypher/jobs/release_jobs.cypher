// An operator takes running jobs back, from any holder: the holder's token no longer fits, so whatever it still
// does is dropped.
// parameters: ids, tokens (only jobs that one of these holds; null = any)
// rows:       id of each job that was given back, and the token that held it
// locks:      jobs in the order given
UNWIND $ids AS id
MATCH (j:EmbedJob {id: id})
SET j._lock = true
WITH j WHERE j.status = 'processing' AND ($tokens IS NULL OR j.lease_token IN $tokens)
WITH j, j.lease_token AS token
SET j.status = 'pending'
REMOVE j.lock_owner, j.lock_until, j.lease_token, j.started_at, j.leased_at
RETURN j.id AS id, token
