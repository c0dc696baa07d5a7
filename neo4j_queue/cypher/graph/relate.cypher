// Relations between current entities; one that is there already stays. The type is a value, never part of the statement:
// it may come from a person, a tool or a language model.
// parameters: rows [{at, source (keys), type, target (keys)}]
// rows:       at: of each row whose ends are both there
// locks:      both ends, in the order of `rows`
UNWIND $rows AS row
MATCH (a:__LABEL__)
WHERE a.__KEY__ IN [row.source[0], row.source[1]]
MATCH (b:__LABEL__)
WHERE b.__KEY__ IN [row.target[0], row.target[1]] AND a.__DELETED__ IS NULL AND b.__DELETED__ IS NULL
MERGE (a)-[:$(row.type)]->(b)
RETURN DISTINCT row.at AS at
