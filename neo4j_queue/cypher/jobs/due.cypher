// Is any job due? One look at the index.
// parameters: now
// rows:       one: due (boolean)
// locks:      none
RETURN EXISTS {
  UNWIND [9, 8, 7, 6, 5, 4, 3, 2, 1, 0] AS p
  MATCH (j:EmbedJob)
  WHERE j.status = 'pending' AND j.priority = p AND j.available_at <= coalesce($now, datetime.realtime().epochMillis)
  RETURN j
} AS due
