// An operator takes running jobs back, whoever holds them: the holder's token no longer fits, so whatever it still
// does is dropped.
// parameters: ids
// rows:       id of each job that was given back, and the token that held it
// locks:      jobs in the order given
UNWIND $ids AS id
MATCH (j:EmbedJob {id: id})
SET j._lock = true
WITH j WHERE j.status = 'processing'
WITH j, j.lease_token AS token
SET j.status = 'pending'
REMOVE j.lock_owner, j.lock_until, j.lease_token, j.started_at, j.leased_at
RETURN j.id AS id, token
