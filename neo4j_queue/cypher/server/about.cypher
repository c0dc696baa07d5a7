// Version and edition of the server, and its clock at this moment (epoch ms).
// parameters: none
// rows:       one: version, edition, clock_ms
// locks:      none
CALL dbms.components() YIELD name, versions, edition
WHERE name = 'Neo4j Kernel'
RETURN versions[0] AS version, edition, datetime.realtime().epochMillis AS clock_ms
