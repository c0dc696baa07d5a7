// Every index over nodes.
// parameters: none
// rows:       name, type, state, labels, properties, config (of a vector index), constraint (name of the owner), percent,
//             failure
// locks:      none
SHOW INDEXES YIELD name, type, entityType, state, labelsOrTypes, properties, options, owningConstraint, populationPercent,
  failureMessage
WHERE entityType = 'NODE' AND type <> 'LOOKUP'
RETURN name, type, state, labelsOrTypes AS labels, properties, options.indexConfig AS config,
  owningConstraint AS constraint, populationPercent AS percent, failureMessage AS failure
ORDER BY name
