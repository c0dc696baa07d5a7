// Adds verdicts to the window that all workers share; the switches, which are read under its lock, come with it.
// parameters: verdicts (newest first: 'ok' or 'CATEGORY:Type'), window (how many are kept), ok (any success), now
// rows:       one: verdicts, state (as it was), last_success_at, last_verdict_at, halted, halted_reason, halted_at, trouble,
//             trouble_rounds, pause_reason, now
// locks:      the health node
MATCH (h:EmbedHealth {name: 'embedding'})
SET h._lock = true
WITH h
SET h.verdicts = ($verdicts + h.verdicts)[..$window],
  h.last_success_at = CASE WHEN $ok THEN coalesce($now, datetime.realtime().epochMillis) ELSE h.last_success_at END,
  h.last_verdict_at = CASE size($verdicts)
    WHEN 0 THEN h.last_verdict_at
    ELSE coalesce($now, datetime.realtime().epochMillis) END
WITH h
OPTIONAL MATCH (c:QueueControl {name: 'embedding'})
RETURN h.verdicts AS verdicts, h.state AS state, h.last_success_at AS last_success_at,
  h.last_verdict_at AS last_verdict_at,
  coalesce(c.halted, false) AS halted, c.halted_reason AS halted_reason,
  c.halted_at AS halted_at, c.trouble AS trouble,
  coalesce(c.trouble_rounds, 0) AS trouble_rounds, c.pause_reason AS pause_reason,
  coalesce($now, datetime.realtime().epochMillis) AS now
