// One caller is to tell that the dead letters are above the limit, or below it again.
// parameters: above
// rows:       one for the caller who is to tell it, none for others
// locks:      control
MATCH (c:QueueControl {name: 'embedding'})
SET c._lock = true
WITH c WHERE coalesce(c.dead_letters_told, false) <> $above
SET c.dead_letters_told = $above
RETURN $above AS above
