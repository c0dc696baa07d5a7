"""The dual-mode repair tool: one entity by name, or a bounded number of entities that have no vector."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import structlog

from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.jobs import PRIORITY_HIGHEST, Enqueued, Status
from neo4j_queue.queue import EmbedQueue

LIMIT_DEFAULT = 10
LIMIT_MAX = 1_000
# Entities per look, however few are wanted: those that are taken care of have to be passed over, which at ten at a time
# is a round trip or three for each handful.
PAGE = 1_000
# During a backfill nearly all of a million are taken care of already. A person waits no longer for the rest of them,
# and leases wait behind this call on a control worker of one slot.
SEARCH_S = 15.0

# Jobs in these states are being taken care of, or wait for `retry_failed`: their entities would only fill the page.
_TAKEN = frozenset({Status.PENDING, Status.PROCESSING, Status.FAILED})

log = structlog.get_logger(__name__)


def force_generate_embedding(
    graph: EntityGraph,
    queue: EmbedQueue,
    entity_name: str | None = None,
    limit: int | str | None = LIMIT_DEFAULT,
) -> dict[str, Any]:
    """Queues one job for the entity `entity_name`, or, if that is blank, jobs for entities without a vector.

    The shape of the answer is that of the contract (docs/reference/tasks.md). Raises `EntityNotFound` for an
    unknown name. `limit` is a number or a numeric string; anything else, or less than 1, means 10; at most 1,000.
    """
    if entity_name is not None and entity_name.strip():
        return _one(graph, queue, entity_name.strip())
    return _some(graph, queue, bounded_limit(limit))


def bounded_limit(limit: object) -> int:
    """The limit that is meant: 1 to 1,000, 10 where it is missing, unreadable or less than 1."""
    try:
        number = int(str(limit).strip())
    except ValueError:
        return LIMIT_DEFAULT
    return LIMIT_DEFAULT if number < 1 else min(number, LIMIT_MAX)


def selected(
    graph: EntityGraph,
    queue: EmbedQueue,
    entity_name: str | None = None,
    limit: int | str | None = LIMIT_DEFAULT,
) -> list[EntityText]:
    """The entities for which `force_generate_embedding` would queue a job. Raises `EntityNotFound` as it does."""
    if entity_name is not None and entity_name.strip():
        return [graph.get_text(entity_name.strip())]
    return discover(graph, queue, bounded_limit(limit))


def discover(
    graph: EntityGraph, queue: EmbedQueue, limit: int, *, clock: Callable[[], float] = time.monotonic
) -> list[EntityText]:
    """Entities without a vector whose job is not being taken care of already; at most `limit`.

    Fewer, with a line in the log, where those that are taken care of take longer than `SEARCH_S` to pass over.
    """
    found: list[EntityText] = []
    after: str | None = None
    passed, until = 0, clock() + SEARCH_S
    while len(found) < limit:
        if clock() > until:
            log.warning("repair_search_ended", passed_over=passed, found=len(found), after_s=SEARCH_S)
            break
        page = graph.get_entities_without_embeddings(PAGE, after)
        states = queue.states_of([text.request(graph.model) for text in page])
        free = [text for text in page if states.get((text.uid, text.version)) not in _TAKEN]
        found += free
        passed += len(page) - len(free)
        if len(page) < PAGE:
            break
        after = page[-1].uid
    return found[:limit]


def _one(graph: EntityGraph, queue: EmbedQueue, name: str) -> dict[str, Any]:
    text = graph.get_text(name)
    # Else the job would find that the entity carries the vector of its text, and leave it as it is.
    if graph.distrust_broken(name):
        log.warning("vector_damaged", entity_name=name)
    request = replace(text.request(graph.model, priority=PRIORITY_HIGHEST), force=True)
    (result,) = queue.enqueue([request])
    return {
        "success": True,
        "mode": "specific",
        "entity": name,
        "job_id": result.id,
        "outcome": str(result.outcome),
    }


def _some(graph: EntityGraph, queue: EmbedQueue, limit: int) -> dict[str, Any]:
    requests = [text.request(graph.model) for text in discover(graph, queue, limit)]
    results = queue.enqueue(requests)
    return {
        "success": True,
        "mode": "batch",
        "limit": limit,
        "discovered": len(requests),
        "queued": len(results),
        "newly_scheduled": sum(result.outcome is not Enqueued.DUPLICATE for result in results),
        "failed": 0,
        "jobs": [
            {"entity": result.entity_uid, "job_id": result.id, "outcome": str(result.outcome)}
            for result in results
        ],
    }
