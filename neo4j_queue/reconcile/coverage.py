"""How much of the graph has a fresh vector, as far as it is known, and since when.

Whether a vector is that of the entity's text now, only a comparison of all texts can tell: the sweep of all entities. A
small graph is counted at once, of a large one the figures of the last such sweep are shown with their time.
"""

from dataclasses import dataclass

from neo4j_queue.cypher import statement
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import Coverage
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.reconcile.sweep import Scope

# Counting walks over all entities: a tenth of a second for so many.
COUNTED_NOW = 50_000


@dataclass(frozen=True, slots=True)
class KnownCoverage:
    """Current entities, and of these the fresh, stale and missing ones; None = not known. Times in epoch ms.

    as_of: of these figures. compared_at: when all texts were compared with their vectors last; a change by another
    program since then is not among the stale ones. outbox: entities whose change through this library waits for its
    vector, known at any time.
    """

    entities: int
    fresh: int | None
    stale: int | None
    missing: int | None
    as_of: int | None
    compared_at: int | None
    outbox: int


def known_coverage(graph: EntityGraph, queue: EmbedQueue, unfinished: int) -> KnownCoverage:
    """What is known of the coverage; `unfinished`: jobs that have not ended.

    Those beyond the entities without a vector are for changed texts, so as many entities count as stale.
    """
    known = graph.known()
    swept = queue.database.read(statement("sweeps/last"), scope=Scope.ALL.value)
    compared_at = swept[0]["ended_at"] if swept else None
    as_of: int | None
    if known.nodes <= COUNTED_NOW:
        counted, as_of = graph.coverage(), known.now
    elif swept:
        seen, fresh, missing = (swept[0][name] for name in ("seen", "fresh", "missing"))
        counted, as_of = Coverage(seen, fresh, seen - fresh - missing, missing), compared_at
    else:
        return KnownCoverage(known.nodes, None, None, None, None, None, known.outbox)
    embedded = counted.entities - counted.missing
    stale = max(counted.stale, min(unfinished - counted.missing, embedded))
    return KnownCoverage(
        counted.entities, embedded - stale, stale, counted.missing, as_of, compared_at, known.outbox
    )
