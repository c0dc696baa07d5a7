// The full-text index that search asks for words.
// parameters: analyzer (what takes texts apart into words)
// rows:       none
// locks:      schema
CREATE FULLTEXT INDEX __INDEX__ IF NOT EXISTS FOR (n:__LABEL__) ON EACH [__PROPERTIES__]
OPTIONS {indexConfig: {`fulltext.analyzer`: $analyzer}}
