// A worker said good-bye.
// parameters: name
// rows:       none
// locks:      the worker node
MATCH (w:EmbedWorker {name: $name}) DELETE w
