// The window and the switches, for a judgement.
// parameters: none
// rows:       one: verdicts, state, last_success_at, halted, halted_reason, trouble, pause_reason
// locks:      none
MATCH (h:EmbedHealth {name: 'embedding'})
OPTIONAL MATCH (c:QueueControl {name: 'embedding'})
RETURN h.verdicts AS verdicts, h.state AS state, h.last_success_at AS last_success_at,
  coalesce(c.halted, false) AS halted, c.halted_reason AS halted_reason, c.trouble AS trouble, c.pause_reason AS pause_reason
