// All counts: some nodes for each provider and model that was ever used, straight from the index of their names.
// parameters: prefix (of their names)
// rows:       provider, model (null = concerns none), counts (all properties)
// locks:      none
MATCH (m:EmbedHealth) WHERE m.name STARTS WITH $prefix
RETURN m.provider AS provider, m.model AS model, m {.*} AS counts
