// One node for one key: MERGE under concurrency makes duplicates without it.
// parameters: none
// rows:       none
// locks:      schema
CREATE CONSTRAINT __NAME__ IF NOT EXISTS FOR (n:__LABEL__) REQUIRE n.__KEY__ IS UNIQUE
