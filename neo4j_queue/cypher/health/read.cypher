// The window and the switches, for a judgement.
// parameters: now
// rows:       one: verdicts, state, last_success_at, last_verdict_at, halted, halted_reason, halted_at, trouble,
//             trouble_rounds, pause_reason, now
// locks:      none
MATCH (h:EmbedHealth {name: 'embedding'})
OPTIONAL MATCH (c:QueueControl {name: 'embedding'})
RETURN h.verdicts AS verdicts, h.state AS state, h.last_success_at AS last_success_at,
  h.last_verdict_at AS last_verdict_at,
  coalesce(c.halted, false) AS halted, c.halted_reason AS halted_reason,
  c.halted_at AS halted_at, c.trouble AS trouble,
  coalesce(c.trouble_rounds, 0) AS trouble_rounds, c.pause_reason AS pause_reason,
  coalesce($now, datetime.realtime().epochMillis) AS now
