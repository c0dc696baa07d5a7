// The switches of the queue.
// parameters: now
// rows:       one: halted, halted_reason, halted_at, paused_until, pause_reason, trouble, trouble_rounds, refused_inputs, refused_inputs_at,
//             slow_inputs, slow_inputs_at (see control/found_size), now
// locks:      none
MATCH (c:QueueControl {name: 'embedding'})
RETURN coalesce(c.halted, false) AS halted, c.halted_reason AS halted_reason, c.halted_at AS halted_at,
  c.paused_until AS paused_until, c.pause_reason AS pause_reason,
  c.trouble AS trouble, coalesce(c.trouble_rounds, 0) AS trouble_rounds,
  c.refused_inputs AS refused_inputs, c.refused_inputs_at AS refused_inputs_at, c.slow_inputs AS slow_inputs,
  c.slow_inputs_at AS slow_inputs_at,
  coalesce($now, datetime.realtime().epochMillis) AS now
