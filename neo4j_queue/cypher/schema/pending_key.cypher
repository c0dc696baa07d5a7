// The outbox in the order of the key, so that a page of it costs the same at any size of the outbox.
// parameters: none
// rows:       none
// locks:      schema
CREATE INDEX __NAME__ IF NOT EXISTS FOR (n:EmbedPending) ON (n.__KEY__)
