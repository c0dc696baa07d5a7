// Adds verdicts to the window that all workers share.
// parameters: verdicts (newest first: 'ok' or 'CATEGORY:Type'), window (how many are kept), ok (any success), now
// rows:       one: verdicts, state (as it was), last_success_at
// locks:      the health node
MATCH (h:EmbedHealth {name: 'embedding'})
SET h._lock = true
WITH h
SET h.verdicts = ($verdicts + h.verdicts)[..$window],
  h.last_success_at = CASE WHEN $ok THEN coalesce($now, datetime.realtime().epochMillis) ELSE h.last_success_at END
RETURN h.verdicts AS verdicts, h.state AS state, h.last_success_at AS last_success_at
