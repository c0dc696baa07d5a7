// How many due jobs are leased before one that waits: those of a higher priority, and those of its own that were due
// earlier. Counted along the index of what is due, and no further than `most` of each priority.
// parameters: higher (priorities), priority, available_at (epoch ms, of the job that waits), most, now
// rows:       one: ahead
// locks:      none
WITH coalesce($now, datetime.realtime().epochMillis) AS now
CALL (now) {
  UNWIND $higher AS p
  CALL (p, now) {
    MATCH (j:EmbedJob) WHERE j.status = 'pending' AND j.priority = p AND j.available_at <= now
    WITH j LIMIT $most
    RETURN count(j) AS due
  }
  RETURN sum(due) AS above
}
CALL () {
  MATCH (j:EmbedJob) WHERE j.status = 'pending' AND j.priority = $priority AND j.available_at < $available_at
  WITH j LIMIT $most
  RETURN count(j) AS before
}
RETURN above + before AS ahead
