// Removes expired jobs; a failed one leaves a slim archive record. It matches by id and judges again under the
// lock, for a job may have been re-queued since it was listed. The name of the parameter is the one that
// `apoc.periodic.iterate` gives a batch.
// parameters: _batch [{id}], statuses (of jobs that may go), cutoff (ended before it), archive (boolean), now
// rows:       one: removed, archived
// locks:      jobs in the order given
UNWIND $_batch AS row
MATCH (j:EmbedJob {id: row.id})
SET j._lock = true
WITH j WHERE j.status IN $statuses AND j.processed_at < $cutoff
WITH j, $archive AND j.status = 'failed' AS archived
FOREACH (_ IN CASE WHEN archived THEN [1] ELSE [] END |
  MERGE (a:EmbedArchive {id: j.id})
  SET a.entity_uid = j.entity_uid, a.model = j.model, a.version = j.version, a.failure_reason = j.failure_reason,
    a.error_category = j.error_category, a.error_type = j.error_type, a.error_status = j.error_status,
    a.error = left(j.error, 200), a.attempts = j.attempts, a.crashes = j.crashes, a.created_at = j.created_at,
    a.failed_at = j.processed_at, a.archived_at = $now)
DETACH DELETE j
RETURN count(*) AS removed, count(CASE WHEN archived THEN 1 END) AS archived
