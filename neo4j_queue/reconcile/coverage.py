"""How much of the graph has a fresh vector, as far as it is known, and since when.

Whether a vector is that of the entity's text now, only a comparison of all texts can tell: the sweep of all entities.
Its exact figures are kept with their time, and shown when a person asks. What costs nothing to know is known at once.
"""

from dataclasses import dataclass

from neo4j import Record

from neo4j_queue.checks.fingerprint import differing
from neo4j_queue.cypher import statement
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import Coverage
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.reconcile.sweep import Scope, made_for

# Counting walks over all entities: a tenth of a second for so many. Beyond, it would grow with the graph.
COUNTED_NOW = 50_000


@dataclass(frozen=True, slots=True)
class KnownCoverage:
    """Current entities, and of these the fresh, stale and missing ones; None = not known. Times in epoch ms.

    as_of: of these figures. compared_at: when all texts were compared with their vectors last; a change by another
    program since then is not among the stale ones. Of that time are `failed`, the entities whose job for that very text
    had failed for good, and `oldest_stale_at`, when the oldest vector was made that was not that of its text any more
    (None: there was none). outbox: entities whose change through this library waits for its vector, known at any time.
    """

    entities: int
    fresh: int | None
    stale: int | None
    missing: int | None
    as_of: int | None
    compared_at: int | None
    outbox: int
    failed: int | None = None
    oldest_stale_at: int | None = None


def known_coverage(graph: EntityGraph, queue: EmbedQueue, unfinished: int) -> KnownCoverage:
    """What is known of the coverage; `unfinished`: jobs that have not ended.

    A graph of up to `COUNTED_NOW` entities is counted now. There, jobs beyond the entities without a vector are for
    changed texts, so as many entities count as stale. Of a larger graph it is the figures of the last full sweep, as
    they were then, where it was done under these settings.
    """
    known = graph.known()
    swept = _last_full_sweep(graph, queue)
    compared_at, failed, oldest = (
        (swept[name] for name in ("ended_at", "failed", "oldest_stale_at")) if swept else (None,) * 3
    )
    if known.nodes <= COUNTED_NOW:
        counted = _with_queued(graph.coverage(), unfinished)
        as_of: int | None = known.now
    elif swept:
        seen, fresh, missing = (swept[name] for name in ("seen", "fresh", "missing"))
        counted, as_of = Coverage(seen, fresh, seen - fresh - missing, missing), compared_at
    else:
        return KnownCoverage(known.nodes, None, None, None, None, None, known.outbox)
    return KnownCoverage(
        counted.entities,
        counted.fresh,
        counted.stale,
        counted.missing,
        as_of,
        compared_at,
        known.outbox,
        failed,
        oldest,
    )


def _last_full_sweep(graph: EntityGraph, queue: EmbedQueue) -> Record | None:
    """What it counted; None: there was none under these settings. Others mean other entities, texts or vectors."""
    found = queue.database.read(statement("sweeps/last"), scope=Scope.ALL.value)
    if not found or found[0]["made_for"] is None:
        return None
    return None if differing(found[0]["made_for"], made_for(graph, queue)) else found[0]


def _with_queued(counted: Coverage, unfinished: int) -> Coverage:
    """The same, with as many stale entities as there are jobs for changed texts."""
    embedded = counted.entities - counted.missing
    stale = max(counted.stale, min(unfinished - counted.missing, embedded))
    return Coverage(counted.entities, embedded - stale, stale, counted.missing)
