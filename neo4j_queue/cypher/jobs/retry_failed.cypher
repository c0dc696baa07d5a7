// Failed jobs back to `pending`, as if they were new. One that was made for other entities than those of the settings in
// force stays as it is: its worker would not find its entity, and end it for that.
// parameters: ids; category, reason, status (HTTP), error_type, quota (what the error must match, unless its status says so),
//             each null = any; now
// rows:       id, entity_uid, foreign (it stays) of each that was failed, and in this way
// locks:      jobs in the order of their ids
OPTIONAL MATCH (c:QueueControl {name: 'embedding'})
WITH c.entities AS entities
UNWIND $ids AS id
MATCH (j:EmbedJob {id: id})
WITH entities, j ORDER BY j.id
SET j._lock = true
WITH entities, j
WHERE j.status = 'failed'
  AND ($category IS NULL OR j.error_category = $category)
  AND ($reason IS NULL OR j.failure_reason = $reason)
  AND ($status IS NULL OR j.error_status = $status)
  AND ($error_type IS NULL OR toLower(j.error_type) = toLower($error_type))
  AND ($quota IS NULL OR j.error_status IN [402, 429] OR j.error =~ $quota)
WITH j, coalesce(j.made_for <> entities, false) AS foreign
FOREACH (_ IN CASE WHEN foreign THEN [] ELSE [1] END |
  SET j.status = 'pending', j.available_at = coalesce($now, datetime.realtime().epochMillis), j.attempts = 0,
    j.crashes = 0
  REMOVE j.processed_at, j.outcome, j.failure_reason, j.error, j.error_category, j.error_type, j.error_status,
    j.error_stack, j.lease_token, j.leased_at, j.started_at, j.lock_owner, j.lock_until, j.crashed_at, j.max_batch, j.worker,
    j:EmbedFailed)
RETURN j.id AS id, j.entity_uid AS entity_uid, foreign
