// When leasing may go on by itself: the next end of a pause, of a back-off, or of a request's time in a window.
// parameters: interval_ms (window of the rate budget), minute_ms (window of the limits that the provider names), now
// rows:       one: beat_ms (since beat's last tick, null = never), halted, paused_ms, delayed_ms (until the first
//             back-off ends), window_ms (until the first request leaves a window, if a job is due); null = no such
//             moment
// locks:      none
// Each moment is the first entry behind `now` in an index: the cost grows with no number of jobs or leases.
MATCH (c:QueueControl {name: 'embedding'})
WITH c, coalesce($now, datetime.realtime().epochMillis) AS now
CALL (now) {
  UNWIND range(0, 9) AS p
  CALL (p, now) {
    MATCH (j:EmbedJob)
    WHERE j.status = 'pending' AND j.priority = p AND j.available_at > now
    WITH j ORDER BY j.status, j.priority, j.available_at LIMIT 1
    RETURN j.available_at AS at
  }
  RETURN min(at) AS delayed_at
}
CALL (now) {
  UNWIND range(0, 9) AS p
  CALL (p, now) {
    MATCH (j:EmbedJob)
    WHERE j.status = 'pending' AND j.priority = p AND j.available_at <= now
    RETURN j LIMIT 1
  }
  RETURN count(j) > 0 AS due
}
CALL (now, due) {
  WITH now WHERE due
  UNWIND [$interval_ms, $minute_ms] AS window
  CALL (window, now) {
    MATCH (l:EmbedLease) WHERE l.requested_at > now - window
    WITH l ORDER BY l.requested_at LIMIT 1
    RETURN l.requested_at + window AS at
  }
  RETURN min(at) AS leaves_at
}
RETURN now - c.beat_at AS beat_ms, coalesce(c.halted, false) AS halted,
  CASE WHEN c.paused_until > now THEN c.paused_until - now END AS paused_ms,
  delayed_at - now AS delayed_ms, leaves_at - now AS window_ms
