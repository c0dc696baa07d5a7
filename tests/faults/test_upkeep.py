"""Upkeep that takes long: it is not ended for that, and nothing else waits for it."""

import threading

import redis
from celery import Celery

from tasks.nudge import SWEEP_AFTER_S
from tests.celery.conftest import SHORT, MakeWorld
from tests.provider import ProviderServer
from tests.waiting import wait_until

# Several turns on any machine: some four thousand a second were the most that was seen.
ENTITIES = 20_000
# After a flush: the start deadline and two ticks of the recovery, and what a busy machine needs for a batch.
BACK_S = (
    int(SHORT["EMBED_JOB_START_DEADLINE_MS"]) + 2 * int(SHORT["EMBED_JOB_RECOVERY_INTERVAL"])
) / 1000 + 4
LOST = "MATCH (j:EmbedJob {status: 'processing'}) WHERE j.started_at IS NULL RETURN collect(j.id) AS ids"
DONE = "UNWIND $ids AS id MATCH (j:EmbedJob {id: id, status: 'completed'}) RETURN count(j) AS n"


def test_a_sweep_longer_than_a_batch_may_last_ends_and_lets_leases_through(make_world: MakeWorld) -> None:
    """On a control worker of one slot.

    Guard: `reconcile.turns`. With a turn without end (TURN_S) no lease is given before the sweep is
    over, and with the time limit of a batch (task_annotations) it ends half-way.
    """
    world = make_world(
        EMBED_REQUEST_TIMEOUT_MS="500",
        EMBED_JOB_START_DEADLINE_MS="900",
        EMBED_JOB_LOCK_DURATION_MS="1000",
        EMBED_JOB_HEARTBEAT_INTERVAL_MS="400",
    )
    control = world.celery.control(concurrency=1)
    world.celery.embed()
    world.graph_db.write("UNWIND range(1, $count) AS n CREATE (:Entity {name: 'e' + n})", count=ENTITIES)
    world.celery.call("call", "tasks.upkeep.reconcile", "--args", '["missing"]')
    (done,) = wait_until(
        lambda: [line for line in control.events("reconcile_done") if line["scope"] == "missing"],
        within_s=90,
        what="the sweep is over",
    )
    assert done["seen"] == ENTITIES
    lines = control.lines()
    before = [line["event"] for line in lines[: lines.index(done)]]
    assert "jobs_leased" in before, "no lease before the sweep was over"


def test_two_long_sweeps_take_turns(make_world: MakeWorld) -> None:
    """On a control worker of one slot. Guard: `_go_on` puts the next turn behind those that wait (`LAST`, a list in the
    order of its coming). With a turn without end the second sweep begins when the first is over."""
    world = make_world(LOG_LEVEL="DEBUG")
    control = world.celery.control(concurrency=1)
    world.graph_db.write("UNWIND range(1, $count) AS n CREATE (:Entity {name: 'e' + n})", count=ENTITIES)
    # At once: a command starts for seconds on a busy machine, and the first sweep is over by then.
    sender = Celery(broker=world.environment["CELERY_BROKER_URL"])
    for scope in ("missing", "all"):
        sender.send_task("tasks.upkeep.reconcile", args=(scope,), queue="control")
    wait_until(lambda: len(control.events("reconcile_done")) >= 2, within_s=120, what="both sweeps are over")
    turns = [line["scope"] for line in control.events("reconcile_goes_on") if line["scope"] != "outbox"]
    both = turns[turns.index("all") : len(turns) - turns[::-1].index("missing")]
    assert len(both) > 2, turns
    assert not any(a == b == c for a, b, c in zip(both, both[1:], both[2:], strict=False)), turns


def test_leases_lost_with_redis_are_back_in_time_while_sweeps_are_called(
    make_world: MakeWorld, provider: ProviderServer
) -> None:
    """Redis is flushed, and two long sweeps are called for, on a control worker of one slot.

    Guard: `reconcile.turns`. With turns without end (TURN_S) the sweeps come first. It failed as well
    with turns of a second that have the priority of all messages: every tick of the recovery expired behind them.
    """
    world = make_world(provider)
    world.celery.control(concurrency=1)
    world.celery.beat()
    world.celery.embed(concurrency=1)
    world.graph_db.write("UNWIND range(1, $count) AS n CREATE (:Entity {name: 'f' + n})", count=ENTITIES)
    url = world.environment["CELERY_BROKER_URL"]
    with provider.held(), redis.Redis.from_url(url) as broker:
        world.create(100)
        provider.wait_for(waiting=1)
        wait_until(lambda: broker.llen("embed"), within_s=20, what="a message waits")
        broker.flushall()
        lost = world.jobs_db.read(LOST)[0]["ids"]
        for scope in ("missing", "all"):
            Celery(broker=url).send_task("tasks.upkeep.reconcile", args=(scope,), queue="control")
    assert lost
    wait_until(
        lambda: world.jobs_db.read(DONE, ids=lost)[0]["n"] == len(lost),
        within_s=BACK_S,
        what="the jobs of the lost messages are done",
    )


def test_a_sweep_goes_on_while_leases_are_asked_for_without_a_pause(make_world: MakeWorld) -> None:
    """More requests for leases wait than a control worker can serve, for as long as the sweep takes.

    Guard: `broker.serve_last`. Without it no turn but the first is taken until the requests end.
    """
    world = make_world()
    control = world.celery.control(concurrency=1)
    world.graph_db.write("UNWIND range(1, $count) AS n CREATE (:Entity {name: 'g' + n})", count=SOME)
    with redis.Redis.from_url(world.environment["CELERY_BROKER_URL"]) as broker:
        app = Celery(broker=world.environment["CELERY_BROKER_URL"])
        app.send_task("tasks.dispatch.lease_batch", queue="kept")
        (request,) = broker.lrange("kept", 0, -1)
        request = request.replace(b'"routing_key": "kept"', b'"routing_key": "control"')
        ended = threading.Event()

        def flood() -> None:
            while not ended.wait(0.05):
                if (few := 50 - broker.llen("control")) > 0:
                    broker.lpush("control", *[request] * few)

        thread = threading.Thread(target=flood)
        thread.start()
        try:
            app.send_task("tasks.upkeep.reconcile", args=("missing",), queue="control")
            done = wait_until(
                lambda: [line for line in control.events("reconcile_done") if line["scope"] == "missing"],
                within_s=90,
                what="the sweep is over",
            )
            assert broker.llen("control") > 10, "requests wait all the time"
        finally:
            ended.set()
            thread.join()
            broker.delete("control")
    assert done[0]["seen"] == SOME


# Two or more turns.
SOME = 6_000


DEFERS = """
import time
from tasks.client import open_graph
with open_graph() as graph:
    (result,) = graph.create_entities([{"name": "e0", "observations": ["deferred"]}])
    assert result.job is None
    time.sleep(SWEEP_AFTER_S + 2)
"""


def test_what_was_deferred_is_swept_at_once(make_world: MakeWorld) -> None:
    """The jobs database is out of reach of one application; no beat, whose sweep would come within five minutes.

    Guard: `sweep_what_was_deferred`. Without it no vector is there within the time of this test.
    """
    world = make_world()
    world.celery.control()
    world.celery.embed()
    inspect = Celery(broker=world.environment["CELERY_BROKER_URL"]).control.inspect(timeout=1.0)
    wait_until(
        lambda: any(
            answer["total"].get("tasks.upkeep.reconcile") for answer in (inspect.stats() or {}).values()
        ),
        within_s=60,
        what="the sweep of the worker's start is over",
    )
    here = world.celery.environment
    world.celery.environment = {**here, "EMBED_JOB_DATABASE_URI": "bolt://127.0.0.1:9"}
    world.celery.program(f"SWEEP_AFTER_S = {SWEEP_AFTER_S}" + DEFERS, within_s=60)
    wait_until(lambda: world.all_fresh(1), within_s=20, what="it is swept and embedded")
