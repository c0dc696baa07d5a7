// Whether it is to be told that workers disagree in these parts of their settings; whoever is told so does it.
// parameters: parts, every_ms (the same parts at most so often), now
// rows:       one if it is, else none
// locks:      control, if it is
MATCH (c:QueueControl {name: 'embedding'})
WITH c, coalesce($now, datetime.realtime().epochMillis) AS now
WHERE coalesce(c.disagreement, '') <> $parts OR coalesce(c.disagreement_told_at, 0) <= now - $every_ms
SET c.disagreement = $parts, c.disagreement_told_at = now
RETURN now AS told_at
