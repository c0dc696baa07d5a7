// Signs that a database holds what belongs to the other one.
// parameters: none
// rows:       one: jobs, entities (true when at least one is there)
// locks:      none
RETURN EXISTS { (:EmbedJob) } OR EXISTS { (:QueueControl) } AS jobs, EXISTS { (:__LABEL__) } AS entities
