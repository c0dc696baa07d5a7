// Jobs of one state that have not ended, the last due first. The index of what is due begins with the priority: it is
// read backwards for each, no further than the limit, and what is sorted is no more than that.
// parameters: status, priorities, since (epoch ms), limit
// rows:       job (all properties)
// locks:      none
UNWIND $priorities AS priority
CALL (priority) {
  MATCH (j:EmbedJob)
  WHERE j.status = $status AND j.priority = priority AND j.available_at >= $since
  RETURN j ORDER BY j.status DESC, j.priority DESC, j.available_at DESC LIMIT $limit
}
RETURN j {.*} AS job ORDER BY j.available_at DESC LIMIT $limit
