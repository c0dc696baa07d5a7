// Look-up of vectors by the text that they stand for, so that entities of one text share one provider input.
// parameters: none
// rows:       none
// locks:      schema
CREATE INDEX __NAME__ IF NOT EXISTS FOR (n:__LABEL__) ON (n.__KEY__)
