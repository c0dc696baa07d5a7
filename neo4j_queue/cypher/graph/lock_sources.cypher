// Locks current entities and reads their source values, for a fence that only the client can judge exactly.
// parameters: uids, sorted; properties (names of the source properties)
// packed:     node (element id), uid, source
// locks:      entities in the order of `uids`, by the write of `_lock`
UNWIND $uids AS uid
MATCH (n:__LABEL__ {__KEY__: uid})
SET n._lock = true
REMOVE n._lock
WITH uid, n
WHERE n.__KEY__ = uid AND n.validTo IS NULL
RETURN collect({node: elementId(n), uid: uid, source: [name IN $properties | n[name]]}) AS rows
