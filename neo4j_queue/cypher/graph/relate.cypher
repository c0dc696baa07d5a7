// Relations between current entities; one that is there already stays. The type is a value, never part of the statement:
// it may come from a person, a tool or a language model.
// parameters: rows [{at, source, type, target}]
// rows:       at: of each row whose ends are both there
// locks:      both ends, in the order of `rows`
UNWIND $rows AS row
MATCH (a:__LABEL__ {__KEY__: row.source})
MATCH (b:__LABEL__ {__KEY__: row.target})
WHERE a.validTo IS NULL AND b.validTo IS NULL
MERGE (a)-[:$(row.type)]->(b)
RETURN DISTINCT row.at AS at
