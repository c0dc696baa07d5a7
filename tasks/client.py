"""For applications: a graph whose entities get their vectors at once.

from tasks.client import open_graph

with open_graph() as graph:
    graph.create_entities([{"name": "Ada Lovelace", "observations": ["wrote the first program"]}])
"""

from neo4j_queue.graph import EntityGraph
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Role, Settings
from tasks.nudge import Nudge, enqueue_and_nudge


def open_graph(settings: Settings | None = None) -> EntityGraph:
    """The graph of the settings (of the environment, when none are given); `close` it, or use it as a context.

    Its writes queue jobs in the jobs database and ask the control worker to lease them. Both may be away: the
    entities are written all the same, and the reconcile sweep queues them later.
    """
    settings = settings or Settings.load(Role.CLI)
    queue = EmbedQueue.connect(settings)
    return EntityGraph.from_settings(
        settings, enqueue=enqueue_and_nudge(queue, Nudge()), book_query=queue.book_query
    )
