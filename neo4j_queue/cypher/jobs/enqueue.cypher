// Makes sure that a job stands for each wanted vector.
// parameters: rows [{row, id, entity_uid, model, version, priority, est_tokens}] with distinct keys, max_attempts,
//             now (epoch ms; null = server clock)
// packed:     row, id (the row's own id = created), status, priority (of the job that stands)
// locks:      new jobs in the order of `rows` (the caller sorts by key); jobs that stand already are only read
// A repeat after an unknown commit answers `created` again: the id that was drawn for the row stands on the node.
OPTIONAL MATCH (c:QueueControl {name: 'embedding'})
WITH c.entities AS made_for, coalesce($now, datetime.realtime().epochMillis) AS now
UNWIND $rows AS row
MERGE (j:EmbedJob {entity_uid: row.entity_uid, model: row.model, version: row.version})
ON CREATE SET j.id = row.id, j.status = 'pending', j.priority = row.priority, j.created_at = now,
  j.available_at = now, j.attempts = 0, j.max_attempts = $max_attempts, j.crashes = 0,
  j.est_tokens = row.est_tokens, j.made_for = made_for, j._lock = true
RETURN collect({row: row.row, id: j.id, status: j.status, priority: j.priority}) AS rows
