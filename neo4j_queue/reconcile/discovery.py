"""Which sweep of beat finds an entity that needs a job, and how often it runs."""

from typing import NamedTuple

from neo4j_queue.cypher import statement
from neo4j_queue.graph.changes import OVERLAP_MS
from neo4j_queue.graph.look import LookedAt, VectorState
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Settings
from neo4j_queue.settings.readers import CHANGED


class Finder(NamedTuple):
    """A sweep, and how often it is due (ms)."""

    every_ms: int
    scope: str

    def __str__(self) -> str:
        return f"`{self.scope}`"


def finder_of(queue: EmbedQueue, settings: Settings, node: LookedAt) -> Finder | None:
    """The soonest sweep of beat that finds the node; None if none does."""
    found = [
        Finder(every_ms, scope)
        for scope, every_ms in settings.discovery().items()
        if _finds(queue, scope, node)
    ]
    return min(found, default=None)


def _finds(queue: EmbedQueue, scope: str, node: LookedAt) -> bool:
    if scope.startswith(CHANGED):
        return _changed(queue, scope, node)
    match scope:
        case "outbox":
            return node.pending
        case "missing":
            return node.state is VectorState.MISSING
        case "all":
            # A damaged vector of the right width and hash looks fresh to a sweep, which reads no numbers.
            return node.state is not VectorState.DAMAGED
    return False


def _changed(queue: EmbedQueue, scope: str, node: LookedAt) -> bool:
    """True if its timestamp says that it was changed since its vector was made, and no sweep has passed that time."""
    at = node.changed_at.get(scope.removeprefix(CHANGED))
    if at is None or node.embedded_at is None or at < node.embedded_at:
        return False
    last = queue.database.read(statement("sweeps/began"), scope=scope)
    return not last or at >= last[0]["began_at"] - OVERLAP_MS
