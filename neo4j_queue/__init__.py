"""neo4j-queue: the durable embedding pipeline for Neo4j graphs.

The names below are there at once and loaded at first use: importing the package loads no driver and no client.

    import neo4j_queue

    with neo4j_queue.open_graph() as graph:
        graph.create_entities([{"name": "Ada Lovelace", "observations": ["wrote the first program"]}])
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neo4j_queue.graph.answer import SearchAnswer as SearchAnswer
    from neo4j_queue.graph.entities import EntityInput as EntityInput
    from neo4j_queue.graph.entity_graph import EntityGraph as EntityGraph
    from neo4j_queue.queue.embed_queue import EmbedQueue as EmbedQueue
    from neo4j_queue.reconcile.explain import explain_entity as explain_entity
    from neo4j_queue.reconcile.explanation import Explanation as Explanation
    from neo4j_queue.settings.settings import Role as Role
    from neo4j_queue.settings.settings import Settings as Settings
    from tasks.client import open_graph as open_graph

_ROOMS = {
    "EmbedQueue": "neo4j_queue.queue.embed_queue",
    "EntityGraph": "neo4j_queue.graph.entity_graph",
    "EntityInput": "neo4j_queue.graph.entities",
    "Explanation": "neo4j_queue.reconcile.explanation",
    "Role": "neo4j_queue.settings.settings",
    "SearchAnswer": "neo4j_queue.graph.answer",
    "Settings": "neo4j_queue.settings.settings",
    "explain_entity": "neo4j_queue.reconcile.explain",
    # Of the Celery side, since its writes ask the workers to begin at once.
    "open_graph": "tasks.client",
}

__all__ = [
    "EmbedQueue",
    "EntityGraph",
    "EntityInput",
    "Explanation",
    "Role",
    "SearchAnswer",
    "Settings",
    "explain_entity",
    "open_graph",
]


def __getattr__(name: str) -> Any:
    if name == "celery":
        _find_tasks(take_name=True)
        return import_module("tasks.app").app
    room = _ROOMS.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if room.startswith("tasks."):
        _find_tasks(take_name=False)
    return getattr(import_module(room), name)


def _find_tasks(*, take_name: bool) -> None:
    """Makes sure that `tasks` is the Celery side of this library and no module of the program's own.

    `take_name`: the process is a Celery process of ours (`celery -A neo4j_queue.celery`), so a `tasks.py` that merely
    lies in its directory is passed over. Elsewhere, and where it is loaded, the name is the program's: `ImportError`.
    """
    ours = Path(__file__).resolve().parent.parent / "tasks" / "__init__.py"
    loaded = sys.modules.get("tasks")
    found = find_spec("tasks") if loaded is None else loaded.__spec__
    origin = None if found is None else found.origin
    if origin is not None and Path(origin).resolve() == ours:
        return
    if loaded is not None or (origin is not None and not take_name):
        raise ImportError(
            f"this program's module `tasks` ({origin}) has the name of the Celery side of neo4j-queue: rename it, or "
            "use EntityGraph and EmbedQueue; workers and beat start with `celery -A neo4j_queue.celery`"
        )
    spec = spec_from_file_location("tasks", ours, submodule_search_locations=[str(ours.parent)])
    if spec is None or spec.loader is None:
        raise ImportError(f"{ours} cannot be loaded")
    module = module_from_spec(spec)
    sys.modules["tasks"] = module
    spec.loader.exec_module(module)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
