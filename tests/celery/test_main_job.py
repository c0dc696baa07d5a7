"""The main job with real workers: entities in, vectors out (B5 without beat, B14, D1, E3, E6)."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from neo4j_queue.embedders import open_embedder
from neo4j_queue.mock_provider import error
from tasks.nudge import INTERVAL_S
from tests.celery.conftest import MakeWorld
from tests.celery_processes import READY_S
from tests.provider import ProviderServer
from tests.waiting import wait_until

DRAIN_S = 60.0


def test_every_vector_belongs_to_its_own_entity(make_world: MakeWorld) -> None:
    """500 jobs, prefork -c 4: a driver shared across a fork would give one task another task's rows."""
    world = make_world()
    world.celery.control()
    world.celery.embed(concurrency=4)
    world.celery.beat()
    names = world.create(500)
    world.drained(within_s=DRAIN_S)
    texts = {text.uid: text.text for text in world.graph.read_texts(names)}
    expected = open_embedder(world.settings).embed([texts[name] for name in names]).vectors
    stored = {
        row["name"]: row["embedding"]
        for row in world.graph_db.read("MATCH (n:Entity) RETURN n.name AS name, n.embedding AS embedding")
    }
    assert sorted(stored) == sorted(names)
    for name, vector in zip(names, expected, strict=True):
        assert stored[name] == pytest.approx(vector, abs=1e-6), name
    jobs = world.jobs()
    assert len(jobs) == 500
    # On a busy machine a lease may run out behind its vector; the next one finds it there.
    assert {job["outcome"] for job in jobs} <= {"embedded", "already_current"}
    assert {job["attempts"] for job in jobs} == {0}


CREATE = """
from tasks.client import open_graph
with open_graph() as graph:
    graph.create_entities({"name": f"app{n}", "observations": [str(n)]} for n in range(50))
"""


def test_an_application_needs_no_beat(make_world: MakeWorld) -> None:
    """Enqueue and the end of each batch drive the queue to empty; the program that enqueued may be gone.

    Guard: the nudge at the end of `embed_batch`, and `wanted` of jobs/close_lease; without either most of the batches,
    which are many times what the slots take, are never leased.
    """
    world = make_world(EMBED_BATCH_SIZE="2")
    world.celery.control()
    world.celery.embed()
    world.celery.program(CREATE, within_s=60)
    world.drained(within_s=DRAIN_S)
    assert world.all_fresh(50)


def test_a_limit_and_a_back_off_end_by_themselves_without_beat(
    make_world: MakeWorld, provider: ProviderServer
) -> None:
    """Guard: `Nudge.after` in `lease_batch`. Without it the batches after the first window were never leased."""
    world = make_world(
        provider,
        EMBEDDING_RATE_LIMIT_TOKENS="2",
        EMBEDDING_RATE_LIMIT_INTERVAL="2000",
        EMBED_BATCH_SIZE="5",
        EMBED_JOB_RETRY_BASE_DELAY_MS="3000",
    )
    provider.reply_next(error(500, {"error": {"message": "a hiccup"}}))
    # Before the workers: their first act is the only one that asks for the first lease.
    world.create(25)
    world.celery.control()
    world.celery.embed()
    world.drained(within_s=DRAIN_S)
    assert world.all_fresh(25)


def test_a_pause_ends_by_itself_without_beat(make_world: MakeWorld) -> None:
    """A pause, and a control worker that is started in the middle of it. Guard: as above."""
    world = make_world()
    world.queue.pause(20, "test")
    world.create(5)
    world.celery.control()
    world.celery.embed()
    world.drained(within_s=DRAIN_S)
    assert world.all_fresh(5)


BURST = """
import threading, time
from neo4j_queue.jobs import JobRequest
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Role, Settings
from tasks.nudge import Nudge, enqueue_and_nudge

COUNT, THREADS, SECONDS = 10_000, 8, 10.0
with EmbedQueue.connect(Settings.load(Role.CLI)) as queue:
    enqueue = enqueue_and_nudge(queue, Nudge())
    began = time.monotonic()

    def work(first):
        for n in range(first, COUNT, THREADS):
            time.sleep(max(0.0, began + n * SECONDS / COUNT - time.monotonic()))
            enqueue([JobRequest(f"gone{n}", "mock-256", f"v{n}")])

    threads = [threading.Thread(target=work, args=(first,)) for first in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(time.monotonic() - began)
"""


def test_ten_thousand_single_enqueues_are_few_lease_transactions(make_world: MakeWorld) -> None:
    """B15: fewer than 500 in ten seconds, and as many in proportion where the machine needs longer.

    The entities do not exist, so that a job is short and the nudges of the workers are at their most frequent. A
    slow machine cannot do more transactions whatever it is asked for; what is asked for is the next test's.
    """
    world = make_world(EMBED_BATCH_SIZE="100")
    world.celery.control()
    world.celery.embed()
    seconds = float(world.celery.program(BURST, within_s=120))
    world.drained(within_s=DRAIN_S)
    assert world.queue.status().completed == 10_000
    stats = json.loads(world.celery.call("inspect", "stats", "--json").stdout)
    asked = json.loads(world.celery.call("inspect", "embed_census", "--json").stdout)
    assert sorted(said["slots"] for said in asked.values()) == [0, 2]
    leases = sum(worker["total"].get("tasks.dispatch.lease_batch", 0) for worker in stats.values())
    assert 10 < leases < 50 * seconds


def test_ten_thousand_single_enqueues_are_few_messages(make_world: MakeWorld) -> None:
    """B15 at its source: twenty nudges a second, however many enqueues.

    Guard: `INTERVAL_S` of tasks/nudge; with 0 there are thousands.
    """
    world = make_world()
    over = threading.Event()
    with (
        redis.Redis.from_url(world.environment["CELERY_BROKER_URL"]) as broker,
        ThreadPoolExecutor(1) as pool,
    ):

        def count() -> int:
            """Takes them all, for nudges end while many wait."""
            taken = 0
            while not over.wait(0.01):
                taken += len(broker.lpop("control", 1_000) or ())
            return taken + broker.llen("control")

        counted = pool.submit(count)
        try:
            seconds = float(world.celery.program(BURST, within_s=120))
        finally:
            over.set()
        messages = counted.result()
    assert 1 <= messages <= seconds / INTERVAL_S + 2


def test_one_worker_without_queues_serves_both(make_world: MakeWorld) -> None:
    """The laptop: `celery -A tasks worker` with its default queues, and beat."""
    world = make_world()
    world.celery.beat()
    world.celery.worker("control,embed", 2)
    world.create(100)
    world.drained(within_s=DRAIN_S)
    assert world.all_fresh(100)


def test_the_log_of_a_failing_run_names_neither_key_nor_text(
    make_world: MakeWorld, provider: ProviderServer
) -> None:
    """E3, with a provider that repeats both in its errors: a job that fails for good, then a halt.

    Guards: the texts of `Redactor.for_exception`; for the key, its keys and the secrets of `log.configure`, of which
    each alone is enough.
    """
    key, secret = "worthless0815zebra", "Met Alice Liddell on the river bank in 1862"
    world = make_world(provider, OPENAI_API_KEY=key)
    provider.reply_to_text("Name: e3", error(400, message=f"{key} may not embed: {secret}"))
    control, embed, beat = world.celery.control(), world.celery.embed(), world.celery.beat()
    world.graph.create_entities({"name": f"e{n}", "observations": [secret]} for n in range(5))
    world.drained(within_s=DRAIN_S)
    provider.reply_always(error(401, message=f"Incorrect API key provided: {key}, for: {secret}"))
    world.graph.create_entities([{"name": "f", "observations": [secret]}])
    wait_until(lambda: embed.events("queue_halted"), within_s=30, what="the queue is halted")
    assert [line["entity_name"] for line in embed.events("embedding_job_failed")] == ["e3"]
    for process in (control, embed, beat):
        written = process.log.read_text(encoding="utf-8") + process.output.read_text(encoding="utf-8")
        assert key not in written
        assert "Liddell" not in written


def test_every_log_line_is_json_and_names_no_text(make_world: MakeWorld) -> None:
    """Worker and beat; a job's line carries its id, its entity and its lease, but never the entity's text."""
    world = make_world()
    control, embed, beat = world.celery.control(), world.celery.embed(), world.celery.beat()
    world.create(5)
    world.drained(within_s=DRAIN_S)
    completed = wait_until(
        lambda: len(embed.events("embedding_job_completed")) == 5 and embed.events("embedding_job_completed"),
        within_s=10,
        what="five lines of completion",
    )
    for line in completed:
        for field in (
            "timestamp",
            "level",
            "worker_id",
            "job_id",
            "entity_name",
            "lease_token",
            "duration_ms",
        ):
            assert line[field], field
        assert line["embedding_size"] == 256
    for process in (control, embed, beat):
        wait_until(process.lines, within_s=10, what=f"lines of {process.name}, each of which parses")
        assert "text of e" not in process.log.read_text(encoding="utf-8")


def test_the_slots_of_an_autoscaled_worker_are_the_most_that_its_pool_grows_to(
    make_world: MakeWorld, provider: ProviderServer
) -> None:
    """Also from none. Guard: `census.slots_of`. Without it two batches ran at most, or none at all (celery#3240)."""
    world = make_world(provider, EMBED_BATCH_SIZE="1")
    world.celery.control()
    arguments = ("worker", "-Q", "embed", "--autoscale=3,0", "-n", "scaled@test")
    worker = world.celery.launch("scaled@test", *arguments)
    assert worker.wait_ready(READY_S)
    (known,) = wait_until(world.queue.census.workers, within_s=30, what="the census knows it")
    assert known.slots == 3
    with provider.held():
        world.create(12)
        world.celery.call("call", "tasks.dispatch.lease_batch")
        provider.wait_for(waiting=3)
    world.drained(within_s=DRAIN_S)


def test_a_rate_limit_of_celery_is_refused_for_batches_and_for_nothing_else(make_world: MakeWorld) -> None:
    """Guard: `tasks.limits`. Without it batches waited in the worker until their leases had run out (celery#8119)."""
    world = make_world()
    worker = world.celery.embed(concurrency=1)
    limit = ("control", "rate_limit")
    refused = world.celery.call(*limit, "tasks.embed.embed_batch", "12/m")
    assert "EMBEDDING_RATE_LIMIT_TOKENS" in refused.stdout + refused.stderr
    (line,) = worker.events("rate_limit_refused")
    assert line["rate_limit"] == "12/m"
    for task, rate in (("tasks.embed.embed_batch", "0"), ("tasks.upkeep.cleanup", "1/m")):
        taken = world.celery.call(*limit, task, rate)
        assert "rate limit" in taken.stdout + taken.stderr
    assert len(worker.events("rate_limit_refused")) == 1
