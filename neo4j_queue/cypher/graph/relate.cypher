// Relations of one type between current entities; one that is there already stays.
// parameters: rows [{at, source, target}]
// rows:       at: of each row whose ends are both there
// locks:      both ends, in the order of `rows`
UNWIND $rows AS row
MATCH (a:__LABEL__ {__KEY__: row.source})
MATCH (b:__LABEL__ {__KEY__: row.target})
WHERE a.validTo IS NULL AND b.validTo IS NULL
MERGE (a)-[:__TYPE__]->(b)
RETURN DISTINCT row.at AS at
