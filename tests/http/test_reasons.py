"""Each reason of the health is seen over HTTP when its fault is planted, and ends with the repair.

Every test fails without the rule that it names by its code: the health stays HEALTHY, and the wait for the code ends in
an assertion.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from neo4j_queue.checks.fingerprint import fingerprint
from neo4j_queue.errors import ErrorCategory, FaultKind
from neo4j_queue.http.app import FRESH_S
from neo4j_queue.jobs import JobRequest
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import Failure, LeasedJob, Worker
from neo4j_queue.schema import migrate_graph
from neo4j_queue.schema.graph_schema import GraphSchema
from neo4j_queue.schema.jobs import migrate_jobs
from tests.celery.conftest import MakeWorld
from tests.faultkit.proxy import Direction
from tests.http.conftest import BOUND_S, Scene, serving
from tests.queue.scenery import fault
from tests.waiting import wait_until


def running(queue: EmbedQueue, count: int, first: int = 0) -> tuple[str, tuple[LeasedJob, ...]]:
    """A lease of so many new jobs, started: its token and the jobs."""
    queue.enqueue([JobRequest(f"e{n}", "m", f"{n:016x}") for n in range(first, first + count)])
    (lease,) = queue.lease("test", batches=1).leases
    return lease.token, queue.start(lease.token, lease.job_ids).jobs


def fail(queue: EmbedQueue, token: str, jobs: tuple[LeasedJob, ...]) -> None:
    queue.fail(token, [Failure(job, fault(ErrorCategory.PERMANENT)) for job in jobs])


def test_halted_with_since_when_until_it_is_resumed(scene: Scene) -> None:
    before = int(time.time()) - 5
    scene.queue.halt("the key is wrong")
    found = scene.server.says("halted")
    assert (found["state"], found["reason"]) == ("CRITICAL", "halted: the key is wrong")
    assert found["command"].startswith("neo4j-queue resume  # once the reason is mended; restart the workers")
    assert time.strftime("%Y-%m-%dT%H:%M", time.gmtime(before))[:13] <= found["since"][:13]
    assert scene.server.get("/health").json["state"] == "CRITICAL"
    scene.queue.resume()
    scene.server.is_well()


def test_a_long_pause_by_a_person(scene: Scene) -> None:
    scene.queue.pause(3_600, "holidays")
    assert "holidays" in scene.server.says("paused")["reason"]
    scene.queue.resume()
    scene.server.is_well()


def test_failures_in_a_row_until_a_success(scene: Scene) -> None:
    """Verdicts and dead letters are told apart: the failed jobs stay failed, and are no reason below the alert."""
    token, jobs = running(scene.queue, 6)
    fail(scene.queue, token, jobs[:5])
    assert scene.server.says("failures_in_a_row")["reason"] == "5 failures in a row"
    scene.queue.complete(token, [jobs[5].id])
    scene.server.is_well()
    answer = scene.server.get("/health").json
    assert answer["dead_letters"] == {"count": 5, "alert": 10, "latest": {"PERMANENT:InternalServerError": 5}}
    assert answer["error_patterns"] == {"PERMANENT:InternalServerError": 5}


def test_a_low_success_rate_until_it_is_higher(scene: Scene) -> None:
    token, jobs = running(scene.queue, 20)
    fail(scene.queue, token, jobs[:6])
    scene.queue.complete(token, [job.id for job in jobs[6:10]])
    assert "40%" in scene.server.says("success_rate_low")["reason"]
    scene.queue.complete(token, [job.id for job in jobs[10:]])
    scene.server.is_well()


@pytest.mark.parametrize(
    ("kind", "code", "rounds"),
    [
        (FaultKind.OUTAGE, "provider_outage", 1),
        (FaultKind.QUOTA, "quota_used_up", 1),
        (FaultKind.RATE_LIMIT, "rate_limited", 5),
    ],
)
def test_a_provider_at_rest_until_it_answers(scene: Scene, kind: FaultKind, code: str, rounds: int) -> None:
    for n in range(rounds):
        token, jobs = running(scene.queue, 1, first=n)
        ids = [job.id for job in jobs]
        # Each round comes after the rest of the one before.
        news = scene.queue.control.provider_failed(token, ids, fault(kind=kind), to_open=1)
        assert news is not None
        assert news.begins
        scene.queue.complete(token, ids)
        scene.jobs_db.write("MATCH (c:QueueControl) SET c.paused_until = timestamp() - 1")
    assert scene.server.says(code)
    scene.queue.resume()
    scene.server.is_well()


def test_dead_letters_above_the_alert_until_they_are_tried_again(scene: Scene) -> None:
    """Ten are none yet. Texts that cannot be embedded are no verdict about the provider, and dead letters all the
    same."""
    for first, count in ((0, 10), (10, 1)):
        token, jobs = running(scene.queue, count, first)
        unembeddable = fault(ErrorCategory.PERMANENT, error_type="UnembeddableText")
        scene.queue.fail(token, [Failure(job, unembeddable) for job in jobs])
        if count == 10:
            scene.server.is_well()
    found = scene.server.says("dead_letters")
    assert found["reason"].startswith("11 jobs have failed for good, more than 10 (EMBED_DEAD_LETTER_ALERT)")
    assert "PERMANENT:UnembeddableText" in found["reason"]
    answer = scene.server.get("/health").json
    assert answer["error_patterns"] == {}
    scene.jobs_db.autocommit("MATCH (j:EmbedJob) DETACH DELETE j")
    scene.server.is_well()


def test_no_lease_tick_though_beat_ran_once(scene: Scene) -> None:
    """Also while the queue is empty: nothing is swept then."""
    scene.queue.ticks.note(beat=True)
    scene.server.is_well()
    scene.jobs_db.write("MATCH (c:QueueControl) SET c.beat_at = c.beat_at - 60000")
    assert "no lease tick of beat was run for 0:01:0" in scene.server.says("no_lease_tick")["reason"]
    scene.queue.ticks.note(beat=True)
    scene.server.is_well()


def test_workers_that_disagree(scene: Scene) -> None:
    others = scene.settings.model_copy(update={"embed_entity_label": "Book"})
    marks = [fingerprint(settings, scene.graph_db) for settings in (scene.settings, others)]
    scene.queue.census.record([Worker(f"w{n}@h", 1, fingerprint=mark) for n, mark in enumerate(marks)])
    assert "(label)" in scene.server.says("settings_disagree")["reason"]
    scene.queue.census.forget("w1@h")
    scene.server.is_well()


@pytest.mark.parametrize("what", ["vector_index", "graph_schema", "jobs_schema"])
def test_an_index_that_was_dropped_until_init_made_it_again(scene: Scene, what: str) -> None:
    """N12 of the vector index: search finds nothing by meaning, and no verdict shows it."""
    schema = GraphSchema.from_settings(scene.settings)
    mend: Callable[[], object] = lambda: migrate_graph(scene.graph_db, scene.settings)  # noqa: E731
    database, name = scene.graph_db, schema.vector_index
    if what == "graph_schema":
        name = schema.text_index
    elif what == "jobs_schema":
        database, name = scene.jobs_db, "embed_job_processed"
        mend = lambda: migrate_jobs(scene.jobs_db)  # noqa: E731
    database.autocommit(f"DROP INDEX {name}")
    try:
        found = scene.server.says(what)
    finally:
        mend()
    assert name in found["reason"]
    assert found["command"] == "neo4j-queue init"
    scene.server.is_well()


def test_a_jobs_database_that_is_not_prepared(scene: Scene) -> None:
    nodes = scene.jobs_db.read("MATCH (c:QueueControl) RETURN properties(c) AS c")[0]["c"]
    scene.jobs_db.write("MATCH (c:QueueControl) DETACH DELETE c")
    try:
        assert scene.server.says("not_prepared")["state"] == "UNAVAILABLE"
        assert scene.server.get("/readyz").status == 503
    finally:
        scene.jobs_db.write("CREATE (c:QueueControl) SET c = $c", c=nodes)
    scene.server.is_well()


@pytest.mark.parametrize(
    ("which", "code", "state"),
    [
        ("jobs", "jobs_database_away", "UNAVAILABLE"),
        ("graph", "graph_away", "UNAVAILABLE"),
        ("redis", "broker_away", "DEGRADED"),
    ],
)
def test_a_service_that_is_frozen_until_it_goes_on(scene: Scene, which: str, code: str, state: str) -> None:
    """E2. Every answer comes within the bound, and those that ask no database at once. Fails without the bound of
    `Checkup`: the driver waits for an answer without end."""
    proxy = getattr(scene.proxies, which)
    proxy.freeze()
    time.sleep(FRESH_S)
    try:
        began = time.monotonic()
        found = scene.server.get("/health")
        assert time.monotonic() - began < BOUND_S
        assert (found.status, found.json["state"]) == (503, state)
        assert scene.server.says(code)["state"] == state
        began = time.monotonic()
        assert scene.server.get("/livez").status == 200
        assert time.monotonic() - began < 1
        assert scene.server.get("/readyz").status == (503 if state == "UNAVAILABLE" else 200)
    finally:
        proxy.thaw()
    scene.server.is_well()


@pytest.mark.parametrize(("which", "code"), [("jobs", "jobs_database_slow"), ("graph", "graph_slow")])
def test_a_database_that_is_slow_until_it_is_not(scene: Scene, which: str, code: str) -> None:
    """Most of a second for a question of milliseconds: it is not said to be away, though it may be of no use so."""
    proxy = getattr(scene.proxies, which)
    proxy.delay(Direction.DOWN, 0.25)
    try:
        assert scene.server.says(code)
    finally:
        proxy.delay(Direction.DOWN, 0.0)
    scene.server.is_well()


def test_jobs_without_workers_a_standstill_and_a_killed_worker(
    scene: Scene, make_world: MakeWorld, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With a real worker: missing, then there, then there and idle though a job has been due for eleven minutes."""
    world = make_world()
    with ExitStack() as stack:
        server = stack.enter_context(serving(world.environment, tmp_path_factory.mktemp("standstill")))
        world.queue.pause(200, "shorter than a reason")
        world.create(1)
        for code in ("control_worker_missing", "embed_worker_missing", "beat_missing"):
            assert server.says(code)
        world.celery.worker("control,embed", 2)
        wait_until(lambda: "embed_worker_missing" not in server.codes(), within_s=60, what="workers are seen")
        beat = world.celery.beat()
        wait_until(lambda: not server.codes(), within_s=60, what="beat is seen")
        world.jobs_db.write("MATCH (j:EmbedJob) SET j.available_at = j.available_at - 660000")
        assert "jobs have been due for 0:11:" in server.says("standstill")["reason"]
        world.celery.started[0].kill()
        assert server.says("embed_worker_missing")
        worker = world.celery.worker("control,embed", 2)
        assert server.says("standstill")
        world.queue.resume()
        world.drained(within_s=60)
        server.is_well()
        beat.kill()
        worker.kill()
