// The settings in force: what workers, beat and callers of this queue must agree in. The first ones are taken over.
// parameters: mark (fingerprint of the caller's settings), entities (the part of it that says which entities; null = it does
//             not know), replace (put it in force whatever was before)
// rows:       one: in_force (fingerprint)
// locks:      control
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
WITH c
SET c.in_force = CASE WHEN $replace OR c.in_force IS NULL THEN $mark ELSE c.in_force END
SET c.entities = CASE WHEN c.in_force = $mark THEN $entities ELSE c.entities END
RETURN c.in_force AS in_force
