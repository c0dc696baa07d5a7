// The next due jobs, straight from the index: the cost does not depend on the depth of the queue.
// parameters: priorities (the order in which they are served), limit, reach (the most that are read of a priority),
//             passed (texts that are passed over), now (epoch ms)
// packed:     id, est_tokens, crashes, max_batch (the most jobs that its batch may hold; null = as many as any), text
//             (the content version), priority, due_at
// locks:      none of its own; the caller holds the control lock (jobs/lease_judge), so no one else leases
// ORDER BY repeats the index's own order; with `available_at` alone the planner would sort every due job.
UNWIND $priorities AS p
CALL (p) {
  MATCH (j:EmbedJob)
  WHERE j.status = 'pending' AND j.priority = p AND j.available_at <= $now
  WITH j ORDER BY j.status, j.priority, j.available_at LIMIT $reach
  WHERE NOT j.version IN $passed
  RETURN j LIMIT $limit
}
WITH j LIMIT $limit
RETURN collect({id: j.id, est_tokens: coalesce(j.est_tokens, 0), crashes: coalesce(j.crashes, 0),
  max_batch: j.max_batch, text: j.version, priority: j.priority, due_at: j.available_at}) AS rows
