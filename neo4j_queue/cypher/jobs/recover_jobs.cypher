// One page of jobs whose lock has expired (or that are `processing` without any lock): back to `pending`, or
// `failed` with `worker_lost` after too many lost workers. Only work that had started counts a crash, and crashes of
// long ago count no more: a job that kills its workers does so again at once.
// parameters: limit, max_crashes, heal_ms (so long after the last crash those before it are forgotten), unlocked (look for jobs without a lock too: that reads all that are processing), met (the entry of the history), kept (entries of it: the last ones), now
// rows:       id, entity_uid, token, owner, started, crashes, failed, unlocked (it had no lock)
// locks:      jobs in the order of their ids; the condition is judged again under the lock, for a heartbeat or a
//             verdict may have come in between
CALL () {
  WITH coalesce($now, datetime.realtime().epochMillis) AS now
  MATCH (j:EmbedJob) WHERE j.status = 'processing' AND j.lock_until < now
  RETURN j LIMIT $limit
UNION
  WITH $unlocked AS unlocked WHERE unlocked
  MATCH (j:EmbedJob) WHERE j.status = 'processing' AND j.priority >= 0 AND j.available_at >= 0
    AND j.lock_until IS NULL
  RETURN j LIMIT $limit
}
WITH j ORDER BY j.id LIMIT $limit
SET j._lock = true
WITH j, coalesce($now, datetime.realtime().epochMillis) AS now
WHERE j.status = 'processing' AND (j.lock_until < now OR j.lock_until IS NULL)
WITH j, now, j.lease_token AS token, j.lock_owner AS owner, j.started_at IS NOT NULL AS started,
  j.lock_until IS NULL AS unlocked
OPTIONAL MATCH (l:EmbedLease {token: token})
WITH j, now, token, owner, started, unlocked, l.worker AS worker,
  CASE WHEN j.crashed_at < now - $heal_ms THEN 0 ELSE coalesce(j.crashes, 0) END
  + CASE WHEN started THEN 1 ELSE 0 END AS crashes
WITH j, now, token, owner, started, unlocked, worker, crashes, started AND crashes > $max_crashes AS lost
SET j.crashes = crashes,
  j.crashed_at = CASE WHEN started THEN now ELSE j.crashed_at END,
  j.worker = CASE WHEN started THEN worker ELSE j.worker END,
  j.history = CASE WHEN started
    THEN (coalesce(j.history, [])
      + (toString(now) + '\t' + replace(coalesce(worker, owner, ''), '\t', ' ') + '\t' + $met))[-$kept..]
    ELSE j.history END,
  j.status = CASE WHEN lost THEN 'failed' ELSE 'pending' END,
  j.failure_reason = CASE WHEN lost THEN 'worker_lost' END,
  j.processed_at = CASE WHEN lost THEN now END
FOREACH (_ IN CASE WHEN lost THEN [1] ELSE [] END | SET j:EmbedFailed)
REMOVE j.lock_owner, j.lock_until, j.lease_token, j.started_at, j.leased_at
RETURN j.id AS id, j.entity_uid AS entity_uid, token, owner, started, crashes, lost AS failed, unlocked
