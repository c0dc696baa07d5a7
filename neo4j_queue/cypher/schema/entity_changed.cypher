// The order in which entities were changed, by the timestamp that other programs keep on them.
// parameters: none
// rows:       none
// locks:      schema
CREATE INDEX __NAME__ IF NOT EXISTS FOR (n:__LABEL__) ON (n.__KEY__)
