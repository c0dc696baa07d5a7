"""The demo: a real graph that every machine has, embedded and searched on real services."""

# Beside the ports of `neo4j-queue up` (7687, 7688, 6379): the demo runs next to whatever is there.
GRAPH_PORT = 7787
JOBS_PORT = 7788
REDIS_PORT = 6479
