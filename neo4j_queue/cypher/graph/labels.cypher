// The labels of the graph.
// parameters: none
// rows:       label
// locks:      none
CALL db.labels() YIELD label
RETURN label
