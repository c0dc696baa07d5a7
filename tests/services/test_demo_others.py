"""What the demo checks before it starts workers: that the servers are its own, on real databases."""

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from neo4j_queue.checks.fingerprint import fingerprint
from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.demo import others, runner
from neo4j_queue.demo.environment import SHORT_LOCKS, DemoSettings
from neo4j_queue.demo.others import ServicesInUse, refuse_others
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityInput
from neo4j_queue.jobs import JobRequest
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import Worker
from neo4j_queue.settings import Settings

# Jobs enough that it shows whether all of them are looked at.
DEEP = 60_000
JOBS = """
UNWIND range(1, $count) AS n
CALL (n) {
  CREATE (:EmbedJob {id: 'job' + n, entity_uid: 'e' + n, model: 'm', version: 'v', status: 'pending', priority: 1,
    available_at: 0, created_at: 0})
} IN TRANSACTIONS OF 10000 ROWS
"""


@pytest.fixture
def queue(jobs_db: Database, settings: Settings) -> EmbedQueue:
    beating = {"embed_job_heartbeat_interval_ms": int(SHORT_LOCKS["EMBED_JOB_HEARTBEAT_INTERVAL_MS"])}
    return EmbedQueue(jobs_db, settings.model_copy(update=beating))


@pytest.fixture
def graph(graph_db: Database, queue: EmbedQueue, settings: Settings) -> EntityGraph:
    return EntityGraph.from_settings(settings, queue.enqueue, database=graph_db)


def test_its_own_jobs_and_workers_are_no_reason(
    queue: EmbedQueue, graph: EntityGraph, settings: Settings
) -> None:
    refuse_others(queue, graph, settings)
    graph.create_entities(EntityInput(f"json.{n}") for n in range(50))
    graph.delete_entity("json.3", soft=True)
    queue.enqueue(JobRequest("json.1", "another model", "v"))
    mark = fingerprint(settings, graph.database)
    queue.census.record([Worker("looking-around@host", 1, fingerprint=mark), Worker("silent@host", 1)])
    refuse_others(queue, graph, settings)


@pytest.mark.parametrize("status", ["pending", "processing", "failed"])
def test_one_job_of_another_graph_among_many_of_its_own_is_found(
    status: str, queue: EmbedQueue, graph: EntityGraph, settings: Settings
) -> None:
    graph.create_entities(EntityInput(f"json.{n}") for n in range(500))
    (job,) = queue.enqueue(JobRequest("978-3", "m", "v"))
    queue.database.write("MATCH (j:EmbedJob {id: $id}) SET j.status = $status", id=job.id, status=status)
    with pytest.raises(
        ServicesInUse, match=f"holds {status} jobs of another graph, such as that of '978-3'"
    ) as no:
        refuse_others(queue, graph, settings)
    assert no.value.exit_code == 75
    queue.database.write("MATCH (j:EmbedJob {id: $id}) SET j.status = 'completed'", id=job.id)
    refuse_others(queue, graph, settings)


def census(queue: EmbedQueue, name: str, mark: str, silent_ms: int) -> None:
    queue.census.record([Worker(name, 1, fingerprint=mark)])
    queue.database.write("MATCH (w:EmbedWorker) SET w.seen_at = w.seen_at - $ms", ms=silent_ms)


@pytest.mark.parametrize(
    ("name", "silent_ms", "refused"),
    [
        ("celery@host", 0, True),
        ("celery@host", 200_000, True),  # the default heartbeat comes every 120 s
        ("celery@host", 301_000, False),
        ("embed-demo-12@host", 0, True),
        ("embed-demo-12@host", 200_000, False),  # it was killed: the demo's heartbeat is short
    ],
)
def test_a_living_worker_with_other_settings_is_found(
    name: str, silent_ms: int, refused: bool, queue: EmbedQueue, graph: EntityGraph, settings: Settings
) -> None:
    mark = fingerprint(settings.model_copy(update={"embed_entity_label": "Book"}), graph.database)
    census(queue, name, mark, silent_ms)
    if not refused:
        refuse_others(queue, graph, settings)
        return
    with pytest.raises(ServicesInUse, match=f"worker {name} runs with other settings than yours"):
        refuse_others(queue, graph, settings)


def test_a_deep_queue_costs_no_more_than_what_is_looked_at(
    queue: EmbedQueue, graph: EntityGraph, settings: Settings
) -> None:
    queue.database.autocommit(JOBS, count=DEEP)
    profiled = statement("jobs/entities").replace("CYPHER 5\n", "CYPHER 5 replan=force PROFILE\n", 1)
    with queue.database.driver().session(database=queue.database.address.database) as session:
        result = session.run(profiled, status="pending", most=others.MOST)  # type: ignore[arg-type, unused-ignore]
        assert len(list(result)) == others.MOST
        plan = result.consume().profile
    hits, operators = 0, [plan]
    while operators:
        operator = operators.pop()
        assert operator is not None
        hits += operator["dbHits"]
        operators += operator.get("children", [])
    assert hits < 3 * others.MOST
    with pytest.raises(ServicesInUse):
        refuse_others(queue, graph, settings)


def test_what_the_queue_was_too_slow_for_is_no_line_of_the_log(
    graph_db: Database, make_settings: Callable[..., Settings]
) -> None:
    """The demo tells it in its own words; everybody else is warned."""

    class Slow:
        def enqueue(self, _: object) -> list[object]:
            raise TimeoutError("busy")

    settings = DemoSettings(**make_settings().model_dump())
    with capture_logs() as logs:
        graph = runner._open_graph(settings, Slow())  # type: ignore[arg-type]
        with graph:
            graph.create_entities([EntityInput("json")])
    assert logs == []
    with capture_logs() as logs:
        theirs = EntityGraph.from_settings(settings, Slow().enqueue, database=graph_db)  # type: ignore[arg-type]
        theirs.create_entities([EntityInput("csv")])
    assert [line["event"] for line in logs] == ["enqueue_deferred"]
