// The state of the jobs that stand for some content versions.
// parameters: keys [{entity_uid, model, version}]
// packed:     entity_uid, version, status, failure_reason
// locks:      none
UNWIND $keys AS key
MATCH (j:EmbedJob {entity_uid: key.entity_uid, model: key.model, version: key.version})
RETURN collect({entity_uid: j.entity_uid, version: j.version, status: j.status,
  failure_reason: j.failure_reason}) AS rows
