"""neo4j-queue: the durable embedding pipeline for Neo4j graphs."""
