// The settings in force: what workers, beat and callers of this queue must agree in. The first ones are taken over.
// parameters: mark (fingerprint of the caller's settings; null = only look), replace (put it in force)
// rows:       one: in_force (fingerprint; null = none yet)
// locks:      control, unless only looked at
MATCH (c:QueueControl {name: 'embedding'})
FOREACH (_ IN CASE WHEN $mark IS NULL THEN [] ELSE [1] END | SET c._lock = true)
WITH c, CASE WHEN $mark IS NOT NULL AND ($replace OR c.in_force IS NULL) THEN $mark ELSE c.in_force END AS in_force
FOREACH (_ IN CASE WHEN in_force <> coalesce(c.in_force, '') THEN [1] ELSE [] END | SET c.in_force = in_force)
RETURN in_force
