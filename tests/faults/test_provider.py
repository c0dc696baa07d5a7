"""The provider's limits and outages with real worker processes (C12, C13)."""

import time

import pytest

from neo4j_queue.mock_provider import Limits, Reply, error
from tests.celery.conftest import MakeWorld, World
from tests.celery_processes import LoggedProcess
from tests.provider import ProviderServer
from tests.waiting import wait_until

BATCH = 20
LIMIT, INTERVAL_S = 40, 5.0
OUTAGE_S = 8.0
SLOTS = 4


def two_workers(world: World) -> list[LoggedProcess]:
    """Four pool processes in two embed workers."""
    world.celery.control()
    world.celery.beat()
    workers = [world.celery.embed(concurrency=2) for _ in range(2)]
    wait_until(
        lambda: len(world.queue.census.workers()) == 2, within_s=30, what="both workers are in the census"
    )
    return workers


def charged(world: World) -> int:
    return sum(job["attempts"] for job in world.jobs())


def test_four_processes_and_a_restart_keep_within_every_sliding_window(
    make_world: MakeWorld, provider: ProviderServer
) -> None:
    """Guard: the budget in jobs/lease_judge. With `EMBEDDING_RATE_LIMIT_TOKENS=unlimited` the server answers 429.

    The provider's own clock and count decide. A worker is killed and another started in the middle. How much of the
    limit is used is measured by `python -m benchmarks provider --only limit`.
    """
    provider.limits = Limits(requests_per_interval=LIMIT, interval_s=INTERVAL_S)
    provider.latency_s = 0.02
    world = make_world(
        provider,
        EMBED_BATCH_SIZE="5",
        EMBEDDING_RATE_LIMIT_TOKENS=str(LIMIT),
        EMBEDDING_RATE_LIMIT_INTERVAL=str(round(INTERVAL_S * 1000)),
    )
    world.queue.pause(60, "being filled")
    world.create(700)
    doomed, _ = two_workers(world)
    world.queue.resume()
    provider.wait_for(requests=LIMIT + 10, timeout_s=30)
    doomed.kill()
    world.celery.embed(concurrency=2)
    status = world.drained(within_s=90)
    assert (status.completed, status.failed) == (700, 0)
    journal = provider.journal
    assert [request.status for request in journal if request.status == 429] == []
    assert provider.most_in_any(INTERVAL_S) <= LIMIT


@pytest.mark.parametrize("fault", [error(503), error(500)], ids=["503", "500"])
def test_an_outage_fails_no_job_and_costs_a_handful_of_requests(
    make_world: MakeWorld, provider: ProviderServer, fault: Reply
) -> None:
    """Guard: `judge_failure`. With a breaker that never opens, the jobs use up their three attempts and fail."""
    provider.latency_s = 0.05
    world = make_world(provider, EMBED_BATCH_SIZE=str(BATCH))
    two_workers(world)
    world.create(3_000)
    wait_until(lambda: world.queue.status().completed >= 200, within_s=60, what="work has begun")
    provider.reply_always(fault)
    down = provider.clock()
    wait_until(lambda: world.queue.control.state().trouble == "outage", within_s=30, what="the breaker opens")
    time.sleep(max(0.0, OUTAGE_S - (provider.clock() - down)))
    provider.reply_always(None)
    up = provider.clock()
    status = world.drained(within_s=90)
    assert (status.completed, status.failed) == (3_000, 0)
    during = [request for request in provider.journal if down < request.at < up]
    single = [request for request in during if len(request.inputs) == 1]
    batches = len(during) - len(single)
    refused = [request for request in provider.journal if request.status == fault.status]
    charging = [request for request in refused if len(request.inputs) > 1]
    assert batches <= 5 + 2 * SLOTS, "those in flight at the start"
    assert len(single) <= 2 + batches, (
        "a probe after five seconds, and after ten; a sibling for each failed batch"
    )
    assert charged(world) <= BATCH * len(charging), "no job was charged for a probe or a sibling"
    after = [request for request in provider.journal if request.at > up]
    assert after[0].at - up < 10, "a probe finds out within ten seconds"
    assert max(len(request.inputs) for request in after) == BATCH, "the batch size is unchanged"
