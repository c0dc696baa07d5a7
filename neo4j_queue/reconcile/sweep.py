"""The sweep that makes the queue agree with the graph: every entity without a fresh vector has a job.

It is the net under everything else: an enqueue that failed, a jobs database that was rebuilt, a program that
writes entities without this library.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.jobs import Enqueued, EnqueueResult, Status
from neo4j_queue.queue import EmbedQueue

# Entities per page: a page of texts is a few megabytes at the most.
PAGE = 1_000


class Scope(StrEnum):
    """Which entities a sweep looks at."""

    OUTBOX = "outbox"  # those written through this library whose vector is not there yet
    MISSING = "missing"  # those without a vector, whoever wrote them
    ALL = "all"  # every one: its text is compared with the one that its vector was made of


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep saw: entities looked at, of these already fresh, queued (again), or standing in the queue.

    The rest has `failed`. `without_key` are those in scope that it could not see: their key is no text.
    """

    seen: int = 0
    fresh: int = 0
    queued: int = 0
    standing: int = 0
    without_key: int = 0

    @property
    def failed(self) -> int:
        """Those whose job for that very text failed for good, and stays so: `retry_failed` is for these.

        In the outbox the soft-deleted, for which nothing is queued, count as such too.
        """
        return self.seen - self.fresh - self.queued - self.standing


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
    for page in pages(graph, scope):
        done = sweep_page(graph, queue, scope, page, done)
        progress(done)
    return with_left_out(graph, scope, done)


def with_left_out(graph: EntityGraph, scope: Scope, done: Sweep) -> Sweep:
    """A sweep at its end, with the number of entities that it could not see."""
    return replace(done, without_key=graph.without_key(pending=scope is Scope.OUTBOX))


def sweep_page(
    graph: EntityGraph, queue: EmbedQueue, scope: Scope, page: Sequence[EntityText], done: Sweep
) -> Sweep:
    """Queues what the entities of one page need, and adds it to what was `done` before."""
    fresh = [text.uid for text in page if text.fresh]
    if scope is Scope.OUTBOX:
        graph.clear_pending(fresh)
    results = enqueue_unless_failed(graph, queue, page)
    standing = sum(result.outcome is Enqueued.DUPLICATE for result in results)
    return Sweep(
        done.seen + len(page),
        done.fresh + len(fresh),
        done.queued + len(results) - standing,
        done.standing + standing,
    )


def pages(graph: EntityGraph, scope: Scope, after: str | None = None) -> Iterator[list[EntityText]]:
    """The entities in scope whose key is greater than `after`, a page at a time, in the order of their keys."""
    while page := _page(graph, scope, after):
        after = page[-1].uid
        yield page


def enqueue_unless_failed(
    graph: EntityGraph, queue: EmbedQueue, texts: Sequence[EntityText]
) -> list[EnqueueResult]:
    """Enqueues what these texts need, except where the job of that very text failed for good."""
    requests = [text.request(graph.model) for text in texts if not (text.fresh or text.deleted)]
    states = queue.states_of(requests)
    return queue.enqueue([r for r in requests if states.get((r.entity_uid, r.version)) != Status.FAILED])


def _page(graph: EntityGraph, scope: Scope, after: str | None) -> list[EntityText]:
    match scope:
        case Scope.OUTBOX:
            return graph.pending_page(after, PAGE)
        case Scope.MISSING:
            return graph.get_entities_without_embeddings(PAGE, after)
        case Scope.ALL:
            return graph.entities_page(after, PAGE)
