// One job.
// parameters: id
// rows:       job (all properties)
// locks:      none
MATCH (j:EmbedJob {id: $id}) RETURN j {.*} AS job
