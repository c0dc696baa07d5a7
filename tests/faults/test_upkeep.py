"""Upkeep that takes long: it is not ended for that, and nothing else waits for it."""

import redis
from celery import Celery

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
