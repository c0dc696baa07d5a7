"""The graph: entities as applications write and read them, their vectors, and search. It knows no queue."""

from neo4j_queue.graph.entity_graph import EntityGraph

__all__ = [
    "EntityGraph",
]
