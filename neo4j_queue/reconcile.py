"""The sweep that makes the queue agree with the graph: every entity without a fresh vector has a job.

It is the net under everything else: an enqueue that failed, a jobs database that was rebuilt, a program that
writes entities without this library.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neo4j_queue.entities import EntityText
from neo4j_queue.graph import EntityGraph
from neo4j_queue.jobs import Enqueued, EnqueueResult, Status
from neo4j_queue.queue import EmbedQueue

# Entities per page: a page of texts is a few megabytes at the most.
PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep saw: entities looked at, of these already fresh, queued (again), or standing in the queue."""

    seen: int = 0
    fresh: int = 0
    queued: int = 0
    standing: int = 0


def sweep(
    graph: EntityGraph,
    queue: EmbedQueue,
    *,
    full: bool = False,
    progress: Callable[[Sweep], None] = lambda _: None,
) -> Sweep:
    """Queues a job for each entity whose vector is missing or stale, page by page.

    Without `full` it looks at the outbox (entities written through this library whose vector is not there yet);
    with it at every entity, which also finds those that other programs wrote. A job that failed for good is left
    alone: `retry_failed` is for these. `progress` is called after each page.
    """
    pages = graph.entities_page if full else graph.pending_page
    done, after = Sweep(), None
    while page := pages(after, PAGE):
        after = page[-1].uid
        fresh = [text for text in page if text.fresh]
        results = enqueue_unless_failed(
            graph, queue, [text for text in page if not text.fresh and not text.deleted]
        )
        if fresh and not full:
            graph.clear_pending([text.uid for text in fresh])
        standing = sum(result.outcome is Enqueued.DUPLICATE for result in results)
        done = Sweep(
            done.seen + len(page),
            done.fresh + len(fresh),
            done.queued + len(results) - standing,
            done.standing + standing,
        )
        progress(done)
    return done


def enqueue_unless_failed(
    graph: EntityGraph, queue: EmbedQueue, texts: Sequence[EntityText]
) -> list[EnqueueResult]:
    """Enqueues what these texts need, except where the job of that very text failed for good."""
    requests = [text.request(graph.model) for text in texts]
    states = queue.states_of(requests)
    return queue.enqueue([r for r in requests if states.get((r.entity_uid, r.version)) != Status.FAILED])
