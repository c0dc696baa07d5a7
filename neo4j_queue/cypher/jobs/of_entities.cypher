// The state of the jobs that stand for some content versions.
// parameters: keys [{entity_uid, model, version}]
// rows:       entity_uid, version, status, failure_reason
// locks:      none
UNWIND $keys AS key
MATCH (j:EmbedJob {entity_uid: key.entity_uid, model: key.model, version: key.version})
RETURN j.entity_uid AS entity_uid, j.version AS version, j.status AS status, j.failure_reason AS failure_reason
