"""When the backlog will be done: what `status` promises, against real workers under a real limit."""

import time

from neo4j_queue.queue import outlook
from tests.celery.conftest import MakeWorld, Run, World
from tests.provider import ProviderServer
from tests.waiting import wait_until

JOBS = 500
# 250 requests, 20 in two seconds and their margin: some 26 seconds.
LIMITED = {
    "EMBEDDING_RATE_LIMIT_TOKENS": "20",
    "EMBEDDING_RATE_LIMIT_INTERVAL": "2000",
    "EMBED_BATCH_SIZE": "2",
}
# Workers that have just begun are slower than those at work, the more so on a machine that others use.
FACTOR = 2.0


def test_the_end_of_a_limited_drain_is_promised_within_a_factor(
    make_world: MakeWorld, provider: ProviderServer
) -> None:
    """Of what is left, at each fifth of the way. Fails with the pace of the last minutes alone, which takes the first
    burst for the pace, and promises a fraction of the time that is left."""
    world = make_world(provider, **LIMITED)
    world.create(JOBS)
    status = world.queue.status()
    assert outlook.read(world.queue, status).done_at is None, "nothing has ended: nothing is promised"
    world.celery.control()
    world.celery.embed(4)
    world.celery.beat()
    promised: list[tuple[float, float]] = []
    for ended in range(JOBS // 5, JOBS, JOBS // 5):
        wait_until(
            lambda least=ended: world.queue.status().completed >= least, within_s=120, what="it goes on"
        )
        status = world.queue.status()
        seen = outlook.read(world.queue, status)
        assert seen.done_at is not None
        promised.append((time.monotonic(), (seen.done_at - status.now) / 1000))
    world.drained(within_s=120)
    end = time.monotonic()
    factors = [left / max(end - at, 0.1) for at, left in promised]
    assert all(1 / FACTOR < factor < FACTOR for factor in factors), factors


def test_a_killed_worker_is_said_to_be_silent_at_the_next_heartbeat(world: World, run: Run) -> None:
    """Its slots count for two heartbeats more, and it stays in the list. Before, nothing told it from the living."""
    world.celery.control()
    embed = world.celery.embed()
    world.celery.beat()
    wait_until(world.queue.census.workers, within_s=60, what="the census knows the embed worker")
    assert run("status", "--json")["silent_workers"] == []
    embed.kill()
    wait_until(lambda: world.queue.census.silent(), within_s=30, what="it is silent")
    (silent,) = run("status", "--json")["silent_workers"]
    assert silent["name"].startswith("embed")
    assert "silent since" in run("status")
    assert silent["name"] in run("health", "--json", code=None)["silent_workers"]
