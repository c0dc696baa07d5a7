// Writes down how deep the queue is, over what was written at the same minute of the day before. The node is one of
// 1,440, under the constraint on the name of the health node.
// parameters: name (of the node), sample {at, pending, delayed, processing, failed, completed}
// rows:       none
// locks:      the node
MERGE (s:EmbedHealth {name: $name})
SET s:EmbedSample, s += $sample
