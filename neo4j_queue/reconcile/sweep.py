"""The sweep that makes the queue agree with the graph: every entity without a fresh vector has a job.

It is the net under everything else: an enqueue that failed, a jobs database that was rebuilt, a program that
writes entities without this library.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Protocol, TypeVar

import structlog

from neo4j_queue.checks import fingerprint
from neo4j_queue.cypher import statement
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.graph.keys import Place
from neo4j_queue.graph.vectors import STEPS, Walk
from neo4j_queue.jobs import PRIORITY_BACKFILL, PRIORITY_DEFAULT, Enqueued, EnqueueResult, shown
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.reconcile.apart import enqueue_apart

# Entities per page: a page of texts is a few megabytes at the most.
PAGE = 1_000

T = TypeVar("T")

log = structlog.get_logger(__name__)


class Looks(Protocol):
    """What a page of a sweep was found by."""

    @property
    def priority(self) -> int:
        """Of the jobs for what is found."""


class Scope(StrEnum):
    """Which entities a sweep looks at. Beside these there is `watermark.Changed`."""

    OUTBOX = "outbox"  # those written through this library whose vector is not there yet
    MISSING = "missing"  # those without a vector, whoever wrote them
    ALL = "all"  # every one: its text is compared with the one that its vector was made of

    @property
    def priority(self) -> int:
        """Of its jobs. An entity of the outbox was just written by a person or a program that waits for it."""
        return PRIORITY_DEFAULT if self is Scope.OUTBOX else PRIORITY_BACKFILL


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep saw: entities looked at, of these already fresh, queued (again), or standing in the queue.

    `missing`: of those looked at, how many have no vector. `deleted`: soft-deleted ones, which get no job.
    `refused`: no job is possible for their key; the log names them. `without_key`: entities in scope that the sweep
    could not see, for their key is neither a text nor a whole number. `oldest_stale_at`: when the oldest vector was
    made that is not the one of its text any more (epoch ms); only a sweep of all looks.
    """

    seen: int = 0
    fresh: int = 0
    queued: int = 0
    standing: int = 0
    missing: int = 0
    deleted: int = 0
    refused: int = 0
    without_key: int = 0
    oldest_stale_at: int | None = None

    @property
    def failed(self) -> int:
        """Those whose job for that very text failed for good, and stays so: `retry_failed` is for these."""
        return self.seen - self.fresh - self.queued - self.standing - self.deleted - self.refused


def sweep(
    graph: EntityGraph,
    queue: EmbedQueue,
    scope: Scope = Scope.OUTBOX,
    *,
    progress: Callable[[Sweep], None] = lambda _: None,
) -> Sweep:
    """Queues a job for each entity in scope whose vector is missing or stale; `progress` is called after each page.

    No transaction is open between pages. It may be run at any time, also twice at once.
    """
    done = Sweep()
    for step in read_ahead(walk(graph, scope)):
        done = sweep_page(graph, queue, scope, step.texts, done)
        progress(done)
    counts = {**asdict(done), "failed": done.failed}
    settings = made_for(graph, queue)
    queue.database.write(
        statement("sweeps/ended"), scope=scope.value, counts=counts, made_for=settings, now=None
    )
    return with_left_out(graph, scope, done)


def made_for(graph: EntityGraph, queue: EmbedQueue) -> str:
    """The fingerprint of the settings that a sweep is done under: what it counts and where it stands hold for these."""
    return queue.mark or fingerprint.fingerprint(queue.settings, graph.database)


def with_left_out(graph: EntityGraph, scope: Scope, done: Sweep) -> Sweep:
    """A sweep at its end, with the number of entities that it could not see."""
    return replace(done, without_key=graph.without_key(pending=scope is Scope.OUTBOX))


def sweep_page(
    graph: EntityGraph, queue: EmbedQueue, scope: Looks, page: Sequence[EntityText], done: Sweep
) -> Sweep:
    """Queues what the entities of one page need, and adds it to what was `done` before."""
    fresh = [text.uid for text in page if text.fresh and not text.deleted]
    deleted = [text.uid for text in page if text.deleted]
    if scope is Scope.OUTBOX:
        graph.clear_pending([*fresh, *deleted])
    results, refused = enqueue_stale(graph, queue, page, scope.priority)
    standing = sum(result.outcome is Enqueued.DUPLICATE for result in results)
    failed = sum(result.outcome is Enqueued.LEFT_FAILED for result in results)
    return Sweep(
        seen=done.seen + len(page),
        fresh=done.fresh + len(fresh),
        queued=done.queued + len(results) - standing - failed,
        standing=done.standing + standing,
        missing=done.missing + sum(not text.embedded and not text.deleted for text in page),
        deleted=done.deleted + len(deleted),
        refused=done.refused + len(refused),
        oldest_stale_at=min(_stale_since(page, done), default=None),
    )


def _stale_since(page: Sequence[EntityText], done: Sweep) -> Iterator[int]:
    """When vectors were made that are stale; of those before the page the oldest."""
    if done.oldest_stale_at is not None:
        yield done.oldest_stale_at
    for text in page:
        if text.needs_vector and text.embedded_at is not None:
            yield text.embedded_at


def pages(graph: EntityGraph, scope: Scope) -> Iterator[list[EntityText]]:
    """The entities in scope, a page at a time, in the order of their keys."""
    return (step.texts for step in walk(graph, scope))


def walk(graph: EntityGraph, scope: Scope, after: Place | None = None) -> Iterator[Walk]:
    """The way through the entities in scope whose key is greater than `after`; what a step costs is bounded."""
    while True:
        step = _step(graph, scope, after)
        yield step
        if (after := step.last) is None:
            return


def read_ahead(items: Iterable[T]) -> Iterator[T]:
    """The same items; the next one is read by another thread while the caller works on this one.

    A sweep waits for two databases in turn, and half of its time is one of the two waiting.
    """
    nothing = object()
    following = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as reader:
        coming = reader.submit(next, following, nothing)
        while (item := coming.result()) is not nothing:
            coming = reader.submit(next, following, nothing)
            yield item  # type: ignore[misc]


def enqueue_stale(
    graph: EntityGraph, queue: EmbedQueue, texts: Sequence[EntityText], priority: int
) -> tuple[list[EnqueueResult], dict[str, str]]:
    """Enqueues what these texts need; a job of that very text that failed for good is left so, and one that waits or
    runs keeps its priority: a load would stand before edits as soon as a sweep saw it.

    Also says for which entities no job is possible, and why: the log names them.
    """
    requests = [text.request(graph.model, priority=priority) for text in texts if text.needs_vector]
    results, refused = enqueue_apart(queue, requests, leave_failed=True, keep_priority=True)
    for uid, why in refused.items():
        log.warning("entity_refused", entity_name=shown(uid), reason=why)
    return results, refused


def _step(graph: EntityGraph, scope: Scope, after: Place | None) -> Walk:
    match scope:
        case Scope.OUTBOX:
            page = graph.pending_page(after, PAGE)
            return Walk(page, page[-1].key if len(page) == PAGE else None)
        case Scope.MISSING:
            return graph.walk_missing(after, STEPS)
        case Scope.ALL:
            return graph.walk_entities(after, PAGE)
