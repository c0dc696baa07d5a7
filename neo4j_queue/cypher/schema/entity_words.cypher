// The full-text index that search falls back on. The loader's caller fills in the list of properties.
// parameters: none
// rows:       none
// locks:      schema
CREATE FULLTEXT INDEX __INDEX__ IF NOT EXISTS FOR (n:__LABEL__) ON EACH [__PROPERTIES__]
