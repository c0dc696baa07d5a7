// One lease, to find out what a lost answer hid.
// parameters: token
// rows:       open, started, outcome
// locks:      none
MATCH (l:EmbedLease {token: $token})
RETURN coalesce(l.open, false) AS open, l.started_at IS NOT NULL AS started, l.outcome AS outcome
