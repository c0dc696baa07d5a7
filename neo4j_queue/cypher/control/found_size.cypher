// Stores what was found out about the inputs of one provider request.
// parameters: refused (it takes so many, and refused more), slow (more than so many were not answered in time), each
//             null = nothing new; now
// rows:       none
// locks:      control
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
WITH c, coalesce($now, datetime.realtime().epochMillis) AS now
SET c.refused_inputs = coalesce($refused, c.refused_inputs),
  c.refused_inputs_at = CASE WHEN $refused IS NULL THEN c.refused_inputs_at ELSE now END,
  c.slow_inputs = coalesce($slow, c.slow_inputs),
  c.slow_inputs_at = CASE WHEN $slow IS NULL THEN c.slow_inputs_at ELSE now END
