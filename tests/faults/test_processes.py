"""Processes that die, freeze or are told to stop, with jobs in every state (B1, B4, B7, B9, B13)."""

import itertools
import os
import signal
import time

import pytest
import redis

from neo4j_queue.mock_provider import error
from tasks.broker import MOST_WAITING, MOST_WISHES
from tests.celery.conftest import MakeWorld, World
from tests.provider import ProviderServer
from tests.waiting import wait_until

DRAIN_S = 90.0
TWO_BEATS_S = 30.0


def charged(world: World) -> set[int]:
    """The attempts that any job was charged."""
    return {job["attempts"] for job in world.jobs()}


def all_embedded(world: World, count: int) -> None:
    """Every job completed, one vector each, no attempt burnt."""
    status = world.drained(within_s=DRAIN_S)
    assert (status.completed, status.failed) == (count, 0)
    assert world.all_fresh(count)
    assert charged(world) == {0}


def test_kill_9_of_a_whole_embed_worker(make_world: MakeWorld, provider: ProviderServer) -> None:
    """With a batch running, one leased and others pending; a new worker goes on when the locks have run out.

    Guard: `EmbedQueue.recover_stale`. Without it what the dead worker held stays `processing`.
    """
    world = make_world(provider)
    world.celery.control()
    world.celery.beat()
    doomed = world.celery.embed(concurrency=1)
    provider.close_gate()
    world.create(200)
    provider.wait_for(waiting=1)
    doomed.kill()
    provider.open_gate()
    world.celery.embed()
    all_embedded(world, 200)
    crashed = [job for job in world.jobs() if job["crashes"]]
    assert 1 <= len(crashed) <= 20, "exactly the batch that was running"


def test_kill_9_of_a_pool_process(make_world: MakeWorld, provider: ProviderServer) -> None:
    """The main process replaces it; the batch comes back when its lock has run out. Guard: as above."""
    world = make_world(provider)
    world.celery.control()
    world.celery.beat()
    worker = world.celery.embed(concurrency=1)
    provider.close_gate()
    world.create(40)
    provider.wait_for(waiting=1)
    for child in worker.children():
        os.kill(child, signal.SIGKILL)
    provider.open_gate()
    all_embedded(world, 40)


@pytest.mark.parametrize("whom", ["worker", "pool process"])
def test_what_a_killed_worker_held_is_back_long_before_its_lock_runs_out(
    make_world: MakeWorld, provider: ProviderServer, whom: str
) -> None:
    """A worker that runs again under its name, or one that lost a pool process, says that it executes nothing.

    Guard: `locks.take_back_orphans` in `upkeep.heartbeat`. Without it the jobs wait for their lock, here five minutes.
    """
    world = make_world(provider, EMBED_JOB_LOCK_DURATION_MS="300000")
    control = world.celery.control()
    world.celery.beat()
    worker = world.celery.embed(concurrency=1)
    provider.close_gate()
    world.create(20)
    provider.wait_for(waiting=1)
    if whom == "worker":
        worker.kill()
        world.celery.launch(worker.name, "worker", "-Q", "embed", "-c", "1", "-n", worker.name)
    else:
        for child in worker.children():
            os.kill(child, signal.SIGKILL)
    provider.open_gate()
    all_embedded(world, 20)
    assert {job["crashes"] for job in world.jobs()} == {1}
    assert control.events("stale_jobs_recovered")


def test_kill_9_of_beat_and_of_the_control_worker(make_world: MakeWorld, provider: ProviderServer) -> None:
    """Neither keeps anything of the queue, so there is no guard to take away; without the new ones it stands still."""
    world = make_world(provider)
    control, beat = world.celery.control(), world.celery.beat()
    world.celery.embed(concurrency=1)
    with provider.held():
        world.create(100)
        provider.wait_for(waiting=1)
        control.kill()
        beat.kill()
    world.celery.control()
    world.celery.beat()
    all_embedded(world, 100)


@pytest.mark.parametrize(
    ("signum", "whom"), [(signal.SIGTERM, "worker"), (signal.SIGQUIT, "worker"), (signal.SIGTERM, "group")]
)
def test_a_stopped_worker_gives_back_what_it_cannot_finish(
    make_world: MakeWorld, provider: ProviderServer, signum: signal.Signals, whom: str
) -> None:
    """In the middle of a provider call that outlasts the grace of one second: released at once, nothing charged.

    Many a supervisor sends its signal to the whole process group, pool processes included.

    Guard: `tasks.lifecycle.release_after_grace` (SIGTERM) and `worker_soft_shutdown_timeout` (SIGQUIT). Without
    the first, SIGTERM waits until the provider answers, here for ever, and the test fails.
    """
    world = make_world(
        provider,
        EMBED_SHUTDOWN_GRACE_MS="1000",
        EMBED_REQUEST_TIMEOUT_MS="25000",
        EMBED_JOB_START_DEADLINE_MS="30000",
        EMBED_JOB_LOCK_DURATION_MS="60000",
    )
    world.celery.control()
    world.create(10)  # before the worker, whose first act leases them: there is no beat
    with provider.held():
        worker = world.celery.embed(concurrency=1)
        provider.wait_for(waiting=1)
        if whom == "group":
            os.killpg(worker.pid, signum)
        else:
            worker.send(signum)
        assert worker.wait(15) is not None
        wait_until(
            lambda: world.queue.status().processing == 0, within_s=10, what="the running batch was released"
        )
    assert world.queue.status().pending == 10
    assert charged(world) == {0}
    assert {job["crashes"] for job in world.jobs()} == {0}
    assert worker.events("embedding_job_released")
    world.celery.embed()
    all_embedded(world, 10)


def test_sigterm_lets_a_quick_batch_finish(make_world: MakeWorld, provider: ProviderServer) -> None:
    """Guard: `lifecycle.say_good_bye`. Without it the census counts on a worker that is gone."""
    world = make_world(provider, EMBED_SHUTDOWN_GRACE_MS="10000")
    world.celery.control()
    world.create(10)
    with provider.held():
        worker = world.celery.embed(concurrency=1)
        provider.wait_for(waiting=1)
        worker.send(signal.SIGTERM)
    assert worker.wait(20) is not None
    assert world.queue.status().completed == 10
    assert len(provider.journal) == 1
    assert world.queue.census.workers() == [], "it said good-bye to the census"


def test_a_job_that_kills_its_worker_ends_alone(make_world: MakeWorld, provider: ProviderServer) -> None:
    """B7: after EMBED_JOB_MAX_CRASHES lost workers the next one is the last; its neighbours complete.

    Guard: `Bounds.inputs_after`. With batches of the full size for suspects, the whole batch ends `worker_lost`.
    """
    world = make_world(
        provider,
        EMBED_JOB_MAX_CRASHES="2",
        EMBED_REQUEST_TIMEOUT_MS="1000",
        EMBED_JOB_START_DEADLINE_MS="1500",
        EMBED_JOB_LOCK_DURATION_MS="2500",
        EMBED_JOB_HEARTBEAT_INTERVAL_MS="1200",
        EMBED_JOB_RECOVERY_INTERVAL="500",
    )
    world.celery.control()
    world.celery.beat()
    worker = world.celery.embed(concurrency=1)
    provider.reply_to_text("Name: killer", error(500))
    provider.latency_s = 0.3
    names = [*(f"n{n}" for n in range(9)), "killer"]
    world.graph.create_entities({"name": name, "observations": ["x"]} for name in names)
    seen = 0

    def struck() -> bool:
        """Plays the part of the text: the process that asks for it dies."""
        nonlocal seen
        journal = provider.journal
        for request in journal[seen:]:
            if any("Name: killer" in text for text in request.inputs):
                for child in worker.children():
                    os.kill(child, signal.SIGKILL)
        seen = len(journal)
        return world.queue.status().unfinished == 0

    wait_until(struck, within_s=DRAIN_S, what="every job has ended")
    ended = {job["entity_uid"]: job for job in world.jobs()}
    assert ended["killer"]["failure_reason"] == "worker_lost"
    assert {ended[name]["status"] for name in names[:-1]} == {"completed"}


def test_a_frozen_worker_writes_nothing_when_it_wakes(
    make_world: MakeWorld, provider: ProviderServer
) -> None:
    """B9: frozen in the middle of its call, its lease ran out, another worker did the job; then it goes on.

    Its request is past its deadline then. What was frozen before or behind its request: test_frozen.py of the pipeline.
    """
    world = make_world(provider)
    world.celery.control()
    world.celery.beat()
    frozen = world.celery.embed(concurrency=1)
    provider.close_gate()
    world.create(5)
    provider.wait_for(waiting=1)
    processes = [frozen.pid, *frozen.children()]
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    provider.open_gate()
    world.celery.embed()
    all_embedded(world, 5)
    written_at = {row["at"] for row in world.graph_db.read("MATCH (n:Entity) RETURN n.embedded_at AS at")}
    for pid in processes:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: frozen.events("lease_lost"), within_s=20, what="the woken worker finds its lease lost")
    assert {
        row["at"] for row in world.graph_db.read("MATCH (n:Entity) RETURN n.embedded_at AS at")
    } == written_at
    assert charged(world) == {0}


def test_heartbeats_extend_what_runs_and_nothing_else(
    make_world: MakeWorld, provider: ProviderServer
) -> None:
    """B10: the lock of a running batch moves on; that of a dead worker's batch does not.

    Guard: `upkeep.heartbeat` extends the leases that live workers name; with all that are open the dead one's moves on.
    """
    world = make_world(
        provider,
        EMBED_REQUEST_TIMEOUT_MS="25000",
        EMBED_JOB_START_DEADLINE_MS="26000",
        EMBED_JOB_LOCK_DURATION_MS="50000",
        # A lock is extended when it lasts for less than two of these, so here after 0.2 s. The test sends two.
        EMBED_JOB_HEARTBEAT_INTERVAL_MS="24900",
    )
    world.celery.control()
    world.celery.beat()
    dead, alive = world.celery.embed(concurrency=1), world.celery.embed(concurrency=1)
    with provider.held():
        world.create(40)
        provider.wait_for(waiting=2)
        dead.kill()
        names = {dead.name, alive.name}

        def locks() -> dict[str, int]:
            found = world.jobs_db.read(
                "MATCH (l:EmbedLease {open: true}) WHERE l.started_at IS NOT NULL "
                "RETURN l.worker AS worker, l.lock_until AS until"
            )
            return {row["worker"]: row["until"] for row in found}

        def heartbeat() -> None:
            before = locks()[alive.name]
            world.celery.program("from tasks.app import app; app.send_task('tasks.upkeep.heartbeat')")
            wait_until(lambda: locks()[alive.name] > before, within_s=8, what="a heartbeat")

        assert locks().keys() == names
        heartbeat()  # the one that was under way when the worker died is over
        last_of_dead = locks()[dead.name]
        heartbeat()
        assert locks()[dead.name] == last_of_dead


def test_work_that_takes_longer_than_its_lock_keeps_it(
    make_world: MakeWorld, provider: ProviderServer
) -> None:
    """B10: one request may take half the lock at most, but the search for a bad text takes seven here, twelve seconds.

    Guard: the leases in `upkeep.heartbeat`. When none is extended, the lock of ten seconds runs out under the work.
    """
    world = make_world(
        provider,
        EMBED_JOB_LOCK_DURATION_MS="10000",
        EMBED_JOB_START_DEADLINE_MS="6000",
        EMBED_REQUEST_TIMEOUT_MS="5000",
    )
    control = world.celery.control()
    world.celery.beat()
    world.celery.embed(concurrency=2)
    provider.latency_s = 1.6
    provider.reply_to_text("Name: poison", error(400, message="cannot embed this"))
    names = ["poison", *(f"n{n}" for n in range(7))]
    world.graph.create_entities({"name": name, "observations": ["x"]} for name in names)
    world.drained(within_s=DRAIN_S)
    (lease,) = world.jobs_db.read(
        "MATCH (l:EmbedLease) RETURN l.outcome AS outcome, l.finished_at - l.started_at AS ms"
    )
    assert lease["outcome"] == "completed"
    assert lease["ms"] > world.settings.embed_job_lock_duration_ms
    assert {job["crashes"] for job in world.jobs()} == {0}
    assert [job["entity_uid"] for job in world.jobs() if job["status"] == "failed"] == ["poison"]
    assert not control.events("stale_jobs_recovered")


def test_two_beats_do_nothing_twice(make_world: MakeWorld, provider: ProviderServer) -> None:
    """B5: every tick comes twice, for 30 s; each text is still paid for once, and nothing is charged.

    Two ticks rarely meet in the same millisecond: without the locks of the lease this passes too. What they guard is
    forced in test_lease_concurrency.py and test_queue_races.py.
    """
    world = make_world(provider, EMBED_JOB_RECOVERY_INTERVAL="1000", EMBED_JOB_HEARTBEAT_INTERVAL_MS="1500")
    world.celery.control(concurrency=2)
    world.celery.beat()
    world.celery.beat()
    world.celery.embed()
    until = time.monotonic() + TWO_BEATS_S
    for n in itertools.count():
        world.create(10, prefix=f"round{n}-")
        wait_until(lambda: not world.queue.status().unfinished, within_s=30, what="this round is done")
        if time.monotonic() > until:
            break
    jobs = world.jobs()
    assert {(job["status"], job["attempts"], job["crashes"]) for job in jobs} == {("completed", 0, 0)}
    assert len(provider.inputs) == len(set(provider.inputs)) == len(jobs)
    assert world.all_fresh(len(jobs))


def test_ticks_that_waited_for_a_worker_are_done_once(make_world: MakeWorld) -> None:
    """B13: several heartbeats waited in the broker; a worker that comes does one, and its own first act.

    Guard: `at_most_every_s` of the beat entries. Without it every heartbeat that waited is run.
    """
    world = make_world(
        EMBED_JOB_RECOVERY_INTERVAL="1000",
        EMBED_JOB_HEARTBEAT_INTERVAL_MS="10000",
        EMBED_JOB_LOCK_DURATION_MS="30000",
    )
    beat = world.celery.beat()
    with redis.Redis.from_url(world.environment["CELERY_BROKER_URL"]) as broker:
        wait_until(lambda: broker.llen("control") >= 4, within_s=60, what="every kind of tick waits")
        beat.kill()
        (tick,) = [each for each in broker.lrange("control", 0, -1) if b"tasks.upkeep.heartbeat" in each]
        broker.rpush("control", *[tick] * 5)
        control = world.celery.control(LOG_LEVEL="DEBUG")
        wait_until(lambda: broker.llen("control") == 0, within_s=30, what="the broker is empty")
        wait_until(lambda: control.events("heartbeat_done"), within_s=20, what="the worker's own first act")
    assert len(control.events("heartbeat_done")) <= 2


NUDGES = """
import time
from tasks.nudge import INTERVAL_S, Nudge
nudge = Nudge()
for _ in range(60):
    nudge()
    time.sleep(INTERVAL_S)
nudge.flush()
"""


def test_what_waits_for_a_control_worker_is_bounded(make_world: MakeWorld) -> None:
    """B13: ticks and nudges end at a number, what people send does not, and work goes on when a worker comes.

    Guards: `BoundedScheduler` (without it the ticks of every second come on top) and `is_crowded` in `Nudge._send`.
    """
    world = make_world(
        EMBED_JOB_RECOVERY_INTERVAL="1000",
        EMBED_JOB_HEARTBEAT_INTERVAL_MS="5000",
        EMBED_JOB_LOCK_DURATION_MS="12000",
    )
    with redis.Redis.from_url(world.environment["CELERY_BROKER_URL"]) as broker:

        def repeat(up_to: int) -> None:
            """A tick of the second, as often as if no worker had taken any for long."""
            tick = next(each for each in broker.lrange("control", 0, -1) if b"lease_batch" in each)
            broker.lpush("control", *[tick] * (up_to - broker.llen("control")))

        beat = world.celery.beat()
        wait_until(lambda: broker.llen("control") >= 4, within_s=60, what="beat ticks")
        repeat(MOST_WISHES - 20)
        world.celery.program(NUDGES)
        assert MOST_WISHES <= broker.llen("control") < MOST_WISHES + 20
        repeat(MOST_WAITING - 3)
        kinds = ("lease", "heartbeat", "recover")
        wait_until(
            lambda: {line["tick"] for line in beat.events("ticks_held_back")} >= set(kinds),
            within_s=20,
            what="beat holds every kind back",
        )
        waiting = broker.llen("control")
        assert waiting <= MOST_WAITING + len(kinds), "each may have been sent by who had just counted"
        called = world.celery.call("call", "tasks.repair.resume")
        assert called.returncode == 0
        assert broker.llen("control") == waiting + 1
        control = world.celery.control(LOG_LEVEL="DEBUG")
        wait_until(lambda: len(control.events("heartbeat_done")) >= 2, within_s=30, what="beat ticks again")
        wait_until(lambda: broker.llen("control") < 10, within_s=30, what="what waited is done")
        # Taken from the broker is not yet done.
        wait_until(lambda: control.events("repair_done"), within_s=30, what="the call of a person is done")
