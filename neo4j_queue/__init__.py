"""neo4j-queue: the durable embedding pipeline for Neo4j graphs.

The names below are there at once and loaded at first use: importing the package loads no driver and no client.

    import neo4j_queue

    with neo4j_queue.open_graph() as graph:
        graph.create_entities([{"name": "Ada Lovelace", "observations": ["wrote the first program"]}])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neo4j_queue.graph.entities import EntityInput as EntityInput
    from neo4j_queue.graph.entity_graph import EntityGraph as EntityGraph
    from neo4j_queue.queue.embed_queue import EmbedQueue as EmbedQueue
    from neo4j_queue.settings.settings import Role as Role
    from neo4j_queue.settings.settings import Settings as Settings
    from tasks.client import open_graph as open_graph

_ROOMS = {
    "EmbedQueue": "neo4j_queue.queue.embed_queue",
    "EntityGraph": "neo4j_queue.graph.entity_graph",
    "EntityInput": "neo4j_queue.graph.entities",
    "Role": "neo4j_queue.settings.settings",
    "Settings": "neo4j_queue.settings.settings",
    # Of the Celery side, since its writes ask the workers to begin at once.
    "open_graph": "tasks.client",
}

__all__ = ["EmbedQueue", "EntityGraph", "EntityInput", "Role", "Settings", "open_graph"]


def __getattr__(name: str) -> Any:
    room = _ROOMS.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(room), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
