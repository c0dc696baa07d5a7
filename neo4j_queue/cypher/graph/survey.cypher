// Which properties the first so many entities have, and whether there are any entities, or any nodes at all.
// parameters: sample (entities to look at)
// rows:       one: entities, nodes, properties (their names)
// locks:      none
RETURN COUNT { MATCH (n:__LABEL__) } AS entities, COUNT { MATCH () } AS nodes,
  COLLECT { MATCH (n:__LABEL__) WITH n LIMIT $sample UNWIND keys(n) AS name RETURN DISTINCT name } AS properties
