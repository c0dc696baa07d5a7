// Drops an index of our own that is to be made anew.
// parameters: none
// rows:       none
// locks:      schema
DROP INDEX __NAME__ IF EXISTS
