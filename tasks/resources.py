"""What the tasks of one process share: opened at first use, never at import, and anew after a fork."""

from functools import cache

from billiard.exceptions import SoftTimeLimitExceeded

from neo4j_queue.embedders import Embedder, open_embedder
from neo4j_queue.embedders.vector_cache import MEGABYTE, VectorCache
from neo4j_queue.graph import EntityGraph
from neo4j_queue.pipeline import Pipeline
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.reconcile.turns import Sweeps
from neo4j_queue.settings import Role, Settings
from tasks.app import fingerprint
from tasks.nudge import Nudge, enqueue_and_nudge


@cache
def settings() -> Settings:
    """The settings of a worker."""
    return Settings.load(Role.WORKER)


@cache
def nudge() -> Nudge:
    """Asks for a lease transaction, soon and not too often."""
    return Nudge()


@cache
def queue() -> EmbedQueue:
    """The jobs database."""
    return EmbedQueue.connect(settings(), mark=fingerprint())


@cache
def graph() -> EntityGraph:
    """The graph, with an outbox that ends in the queue."""
    return EntityGraph.from_settings(settings(), enqueue=enqueue_and_nudge(queue(), nudge()))


@cache
def embedder() -> Embedder:
    """The provider's client."""
    return open_embedder(settings())


@cache
def vectors() -> VectorCache:
    """The vectors that this process had in hand lately."""
    return VectorCache(settings().embed_cache_mb * MEGABYTE)


@cache
def sweeps() -> Sweeps:
    """The sweeps of graph and queue."""
    return Sweeps(graph(), queue())


@cache
def pipeline(worker: str) -> Pipeline:
    """The embedding of leased batches."""
    return Pipeline(
        queue(),
        graph(),
        embedder(),
        worker=worker,
        interruptions=(SystemExit, KeyboardInterrupt, SoftTimeLimitExceeded),
        log_content=settings().embed_log_content,
        long_texts=settings().embed_long_texts,
        lock_ms=settings().embed_job_lock_duration_ms,
        request_ms=settings().embed_request_timeout_ms,
        cache=vectors(),
    )
