"""The jobs database as a queue: it knows no graph and no provider."""

from neo4j_queue.queue.embed_queue import EmbedQueue

__all__ = [
    "EmbedQueue",
]
