// Creates entities or merges properties into those that are there. A soft-deleted entity comes back.
// parameters: rows [{key, properties}] with distinct keys, properties (names of the source properties), model,
//             keep (true: a current entity stays as it is)
// packed:     one for each current entity: node (element id), key (null: deleted while we waited for its lock), created,
//             changed, source, width, hash, model, pending
// locks:      entities in the order of `rows` (sorted by name by the caller): MERGE, and the write of `_created`
UNWIND $rows AS row
MERGE (n:__LABEL__ {__KEY__: row.key})
  ON CREATE SET n._created = true, n:EmbedPending
  ON MATCH SET n._created = false
WITH row, collect(n) AS nodes
WITH row, nodes, any(n IN nodes WHERE n._created) AS created, [n IN nodes WHERE n.__DELETED__ IS NULL] AS current
FOREACH (n IN nodes | REMOVE n._created)
WITH created, CASE WHEN current = [] THEN nodes[..1] ELSE current END AS targets,
  CASE WHEN $keep AND NOT created AND current <> [] THEN {} ELSE row.properties END AS given
UNWIND targets AS n
WITH given, created, n, n.__DELETED__ IS NOT NULL OR coalesce(any(
  key IN keys(given)
  WHERE NOT (n[key] = given[key] OR n[key] IS NULL AND given[key] IS NULL)
), true) AS changed
SET n += given
REMOVE n.__DELETED__
WITH created, changed, n, CASE WHEN n.__VECTOR_MODEL__ = $model AND n.__VECTOR__ IS :: LIST<FLOAT NOT NULL> NOT NULL
  THEN size(n.__VECTOR__) WHEN n.__VECTOR__ IS NOT NULL THEN 0 END AS width
RETURN collect({node: elementId(n), key: n.__KEY__, created: created, changed: changed,
  source: [name IN $properties | n[name]], width: width, hash: n.__VECTOR_HASH__,
  model: n.__VECTOR_MODEL__, pending: n:EmbedPending}) AS rows
