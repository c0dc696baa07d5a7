// Look-up by key where the data has duplicates, so that the constraint is impossible.
// parameters: none
// rows:       none
// locks:      schema
CREATE INDEX __NAME__ IF NOT EXISTS FOR (n:__LABEL__) ON (n.__KEY__)
