// The trigger itself: APOC runs it in each transaction that writes to the graph, before its commit. It puts entities
// into the outbox whose text, key or soft-delete property was changed, and those that are new or got the label.
// All names are values of parameters: nothing of them is read as Cypher. Nodes are matched anew, since one that the
// transaction has deleted is named too, and looking at it would fail the transaction.
// parameters: label, key, deleted (property, or null: none), names (properties to watch); from APOC assignedLabels
//             {label: [nodes]}, assignedNodeProperties and removedNodeProperties {property: [{node, …}]}
// rows:       none
// locks:      none but those that the transaction holds already
CALL {
  UNWIND coalesce($assignedLabels[$label], []) AS node
  RETURN elementId(node) AS id
  UNION
  UNWIND $names AS name
  UNWIND coalesce($assignedNodeProperties[name], []) + coalesce($removedNodeProperties[name], []) AS change
  RETURN elementId(change.node) AS id
}
MATCH (n) WHERE elementId(n) = id
  AND $label IN labels(n) AND NOT n:EmbedPending AND n[$key] IS NOT NULL AND n[$deleted] IS NULL
SET n:EmbedPending
