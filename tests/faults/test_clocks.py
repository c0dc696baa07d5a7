"""Clocks of workers and beat that are wrong: the database's time alone decides (A15 for messages)."""

import pytest

from tests.celery.conftest import MakeWorld
from tests.faults.test_processes import all_embedded
from tests.skewed import clock_off
from tests.waiting import wait_until

# Two requests in two seconds: most batches are leased after a window has passed, by a tick.
SCARCE = {
    "EMBEDDING_RATE_LIMIT_TOKENS": "2",
    "EMBEDDING_RATE_LIMIT_INTERVAL": "2000",
    "EMBED_BATCH_SIZE": "5",
}


@pytest.mark.parametrize("offset", ["+5s", "-5s", "+1h", "-2d"])
def test_a_control_worker_whose_clock_is_off_runs_every_tick(make_world: MakeWorld, offset: str) -> None:
    """It drains a queue under a limit, is named in the log, and beat's ticks come through.

    Guard: no `expires` on ticks. With one of nine tenths of a second no tick was run at +5 s and +1 h.
    """
    world = make_world(**SCARCE)
    control = world.celery.control(concurrency=2, **clock_off(offset))
    world.celery.embed()
    world.celery.beat()
    world.create(30)
    all_embedded(world, 30)
    wait_until(
        lambda: not world.queue.ticks.ages().beat_is_missing, within_s=5, what="ticks of beat come through"
    )
    (line,) = wait_until(lambda: control.events("worker_clock_off"), within_s=30, what="the clock is named")
    assert list(line["ahead_s"]) == [control.name]
    sign = 1 if offset[0] == "+" else -1
    assert line["ahead_s"][control.name] * sign > 3


def test_an_application_whose_clock_is_behind_is_heard(make_world: MakeWorld) -> None:
    """Without beat, so that its nudge alone brings the work. Guard: no `expires` on nudges."""
    world = make_world()
    world.celery.control()
    world.celery.embed()
    world.celery.environment = {**world.celery.environment, **clock_off("-1h")}
    world.celery.program(WRITE, within_s=60)
    all_embedded(world, 20)


WRITE = """
from tasks.client import open_graph
with open_graph() as graph:
    graph.create_entities({"name": f"e{n}", "observations": [str(n)]} for n in range(20))
"""
