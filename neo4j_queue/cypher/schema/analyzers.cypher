// The analyzers that the server has for full-text indexes.
// parameters: none
// rows:       analyzer (name)
// locks:      none
CALL db.index.fulltext.listAvailableAnalyzers() YIELD analyzer
RETURN analyzer ORDER BY analyzer
