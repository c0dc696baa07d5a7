"""For applications: a graph whose entities get their vectors at once (`neo4j_queue.open_graph`)."""

from neo4j_queue.graph import EntityGraph
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Role, Settings
from tasks.nudge import Nudge, enqueue_and_nudge


def open_graph(settings: Settings | None = None) -> EntityGraph:
    """The graph of the settings (of the environment, when none are given); `close` it, or use it as a context.

    Its writes queue jobs in the jobs database and ask the control worker to lease them. Both may be away: the
    entities are written all the same, and the reconcile sweep queues them later. `close` closes all that was
    opened here: both drivers, and the thread that asks.
    """
    settings = settings or Settings.load(Role.CLI)
    queue, nudge = EmbedQueue.connect(settings), Nudge()
    return EntityGraph.from_settings(
        settings,
        enqueue=enqueue_and_nudge(queue, nudge),
        book_query=queue.book_query,
        closing=(queue.close, nudge.close),
    )
