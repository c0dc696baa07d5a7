// Adds to counts that only grow. The node is one of a few, under the constraint on the name of the health node.
// parameters: node (its name), counts [{name, by}]
// rows:       none
// locks:      the node, after all others but that of the health
MERGE (m:EmbedHealth {name: $node})
ON CREATE SET m:EmbedCounts
SET m._lock = true
WITH m
UNWIND $counts AS count
SET m[count.name] = coalesce(m[count.name], 0) + count.by
