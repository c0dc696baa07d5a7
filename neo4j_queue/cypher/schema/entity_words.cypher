// The full-text index that search falls back on.
// parameters: none
// rows:       none
// locks:      schema
CREATE FULLTEXT INDEX __INDEX__ IF NOT EXISTS FOR (n:__LABEL__) ON EACH [__PROPERTIES__]
