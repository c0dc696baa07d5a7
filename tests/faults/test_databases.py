"""The databases are restarted under load, or are away while entities are written (B3, D3)."""

import pytest

from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.local_services import LocalServices
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.reconcile import sweep
from tests.celery.conftest import MakeWorld
from tests.faults.test_processes import all_embedded
from tests.waiting import wait_until


@pytest.mark.parametrize("which", ["jobs", "graph"])
def test_a_database_restarted_under_load(make_world: MakeWorld, services: LocalServices, which: str) -> None:
    world = make_world(EMBED_BATCH_SIZE="5", MOCK_EMBEDDING_LATENCY_MS="100")
    world.celery.control()
    world.celery.beat()
    world.celery.embed()
    world.create(300)
    wait_until(lambda: world.queue.status().completed >= 20, within_s=60, what="work has begun")
    getattr(services, which).restart()
    all_embedded(world, 300)


def test_entities_are_written_while_the_jobs_database_is_down(
    make_world: MakeWorld, services: LocalServices
) -> None:
    """Marked in their own transaction; the sweep queues them when the database is back."""
    world = make_world()
    # Without retries of its own: with them the hand-over may still succeed behind the back of this test.
    with Database(services.jobs.address, retry_time_s=0) as impatient:
        enqueue = EmbedQueue(impatient, world.settings).enqueue
        graph = EntityGraph.from_settings(world.settings, enqueue=enqueue, database=world.graph_db)
        services.jobs.stop()
        try:
            results = graph.create_entities([{"name": "a", "observations": ["x"]}])
        finally:
            services.jobs.start()
    assert results[0].job is None
    with Database(services.jobs.address) as jobs_db:
        queue = EmbedQueue(jobs_db, world.settings)
        assert sweep(graph, queue).queued == 1
        assert queue.status().pending == 1
