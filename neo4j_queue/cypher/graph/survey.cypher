// Which properties the first so many entities have, and whether there are any entities, current ones, any nodes at all.
// parameters: sample (entities to look at)
// rows:       one: entities, current (is there one), nodes, properties (their names)
// locks:      none
RETURN COUNT { MATCH (n:__LABEL__) } AS entities, COUNT { MATCH () } AS nodes,
  EXISTS { MATCH (n:__LABEL__) WHERE n.__DELETED__ IS NULL } AS current,
  COLLECT { MATCH (n:__LABEL__) WITH n LIMIT $sample UNWIND keys(n) AS name RETURN DISTINCT name } AS properties
