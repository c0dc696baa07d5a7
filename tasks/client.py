"""For applications: a graph whose entities get their vectors at once (`neo4j_queue.open_graph`)."""

import time
from collections.abc import Sequence

from neo4j_queue.checks import fingerprint, in_force
from neo4j_queue.database import Database
from neo4j_queue.errors import SettingsError
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.outbox import Enqueue
from neo4j_queue.jobs import EnqueueResult, JobRequest
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Role, Settings
from tasks.nudge import Nudge, enqueue_and_nudge, sweep_what_was_deferred

# Settings in force change when a person runs `neo4j-queue init`; workers refuse the others at once.
LOOK_AGAIN_S = 60.0


def open_graph(settings: Settings | None = None) -> EntityGraph:
    """The graph of the settings (of the environment, when none are given); `close` it, or use it as a context.

    Its writes queue jobs in the jobs database and ask the control worker to lease them. Both may be away: the
    entities are written all the same, and the reconcile sweep queues them later. `close` closes all that was
    opened here: both drivers, and the thread that asks.
    """
    settings = settings or Settings.load(Role.CLI)
    return graph_of(settings, Database(settings.graph_address()), EmbedQueue.connect(settings), Nudge())


def graph_of(settings: Settings, database: Database, queue: EmbedQueue, nudge: Nudge) -> EntityGraph:
    """The graph over these parts, which are its own from now on: it closes them."""
    return EntityGraph.from_settings(
        settings,
        enqueue=Guarded(settings, database, queue, enqueue_and_nudge(queue, nudge)),
        database=database,
        on_deferred=sweep_what_was_deferred(nudge),
        book_query=queue.book_query,
        closing=(queue.close, nudge.close),
    )


class Guarded:
    """An `enqueue` that first makes sure that these settings are in force: the workers of others would end its jobs.

    Raises `SettingsError` where they are not. The entities stay in the outbox then, and the log says why.
    """

    def __init__(self, settings: Settings, graph: Database, queue: EmbedQueue, enqueue: Enqueue) -> None:
        self._settings = settings
        self._graph = graph
        self._queue = queue
        self._enqueue = enqueue
        self._looked_at = float("-inf")

    def __call__(self, requests: Sequence[JobRequest]) -> Sequence[EnqueueResult]:
        if time.monotonic() - self._looked_at > LOOK_AGAIN_S:
            own = fingerprint.fingerprint(self._settings, self._graph)
            line = in_force.refusal(in_force.read(self._queue.database), own)
            if line is not None:
                raise SettingsError([line])
            self._looked_at = time.monotonic()
        return self._enqueue(requests)
