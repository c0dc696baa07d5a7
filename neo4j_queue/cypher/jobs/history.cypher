// The jobs that stand for some content versions of an entity, and others of it, by the index of the jobs' key.
// parameters: entity_uid, model, versions (of the texts as they are now), most (other jobs that are looked at), limit
//             (other jobs: the last created of them)
// rows:       one: jobs (maps of all properties, and `holder`: the worker of its lease, or who leased it), looked_at (jobs)
// locks:      none
CALL () {
  UNWIND $versions AS version
  MATCH (j:EmbedJob {entity_uid: $entity_uid, model: $model, version: version})
  RETURN collect(j) AS wanted
}
CALL (wanted) {
  MATCH (j:EmbedJob)
  WHERE j.entity_uid = $entity_uid AND j.model IS NOT NULL AND j.version IS NOT NULL
  WITH j, wanted LIMIT $most
  WITH j, wanted ORDER BY j.created_at DESC
  WITH wanted, collect(j) AS seen
  RETURN seen, size(seen) AS looked_at
}
WITH looked_at, wanted + [j IN seen WHERE NOT j IN wanted][..$limit] AS found
UNWIND CASE WHEN size(found) = 0 THEN [null] ELSE found END AS j
OPTIONAL MATCH (l:EmbedLease {token: j.lease_token})
RETURN coalesce(max(looked_at), 0) AS looked_at,
  collect(CASE WHEN j IS NOT NULL THEN j {.*, holder: coalesce(l.worker, l.owner)} END) AS jobs
