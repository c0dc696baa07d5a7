"""One leased batch from start to finish. It knows the queue and the graph."""

from neo4j_queue.pipeline.pipeline import Pipeline

__all__ = [
    "Pipeline",
]
