"""Upkeep that takes long: it is not ended for that, and nothing else waits for it."""

from tests.celery.conftest import MakeWorld
from tests.waiting import wait_until

# Several turns on any machine: some four thousand a second were the most that was seen.
ENTITIES = 20_000


def test_a_sweep_longer_than_a_batch_may_last_ends_and_lets_leases_through(make_world: MakeWorld) -> None:
    """On a control worker of one slot.

    Guard: the turns of `neo4j_queue.sweeps`. With a turn without end (TURN_S) no lease is given before the sweep is
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
    (done,) = wait_until(lambda: control.events("reconcile_done"), within_s=90, what="the sweep is over")
    assert done["seen"] == ENTITIES
    order = [line["event"] for line in control.lines()]
    assert "jobs_leased" in order[: order.index("reconcile_done")], "no lease before the sweep was over"
