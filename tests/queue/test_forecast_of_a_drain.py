"""What is promised of the end, against a drain: the leases of a real queue, on a clock that only the test moves."""

from collections.abc import Callable

import pytest

from neo4j_queue.database import Database
from neo4j_queue.jobs import Outcome
from neo4j_queue.queue import EmbedQueue, outlook
from neo4j_queue.queue.leases import Completion, Spent, Verdicts, Worker
from tests.queue.scenery import Clock, requests

BATCH_MS = 40
SLOTS = 4
STEP_MS = 20


def drain(queue: EmbedQueue, clock: Clock) -> list[tuple[int, int | None]]:
    """Drains the queue as `SLOTS` slots would; each moment with the end that was promised then."""
    promised: list[tuple[int, int | None]] = []
    queue.census.record([Worker("w@test", SLOTS)])
    while (status := queue.status()).unfinished:
        promised.append((clock.now, outlook.read(queue, status).done_at))
        leases = queue.lease("test", batches=SLOTS).leases
        for lease in leases:
            queue.start(lease.token, lease.job_ids, worker="w@test")
        clock.advance(BATCH_MS if leases else STEP_MS)
        for lease in leases:
            done = Verdicts(completed=queue_done(lease.job_ids))
            queue.settle(lease.token, done, spent=Spent(1, lease.est_tokens, BATCH_MS))
    return promised


def queue_done(ids: tuple[str, ...]) -> list[Completion]:
    return [Completion(job_id, Outcome.EMBEDDED) for job_id in ids]


@pytest.mark.parametrize(
    ("jobs", "settings"),
    [
        (
            500,
            {
                "embedding_rate_limit_tokens": 20,
                "embedding_rate_limit_interval": 2_000,
                "embed_batch_size": 5,
            },
        ),
        (
            100,
            {
                "embedding_rate_limit_tokens": 20,
                "embedding_rate_limit_interval": 2_000,
                "embed_batch_size": 1,
            },
        ),
        (300, {"embedding_rate_limit_tokens": "unlimited", "embed_batch_size": 5}),
        (
            300,
            {
                "embedding_rate_limit_tokens": "unlimited",
                "embedding_rate_limit_model_tokens": 1_000,
                "embedding_rate_limit_interval": 2_000,
                "embed_batch_size": 10,
            },
        ),
    ],
    ids=["requests", "single requests", "speed", "tokens"],
)
def test_the_end_that_is_promised_is_right_within_a_fifth(
    jobs: int, settings: dict[str, object], make_queue: Callable[..., EmbedQueue], clock: Clock
) -> None:
    """From a tenth of the way on, at each moment. Guards: `Window.moment`, without which the first burst promises an
    end ten times too early; `tokens_per_job`; and `GAP_SHARE`, without which the rests of the limit count as work."""
    queue = make_queue(**settings)
    queue.enqueue(requests(jobs, est_tokens=10))
    began = clock.now
    promised = drain(queue, clock)
    took = clock.now - began
    assert promised[0][1] is None, "nothing has ended yet, so nothing is promised"
    judged = [(at, end) for at, end in promised if began + took / 10 < at < clock.now - took / 10]
    assert judged
    assert all(end is not None for _, end in judged)
    errors = [((end or 0) - at) / (clock.now - at) for at, end in judged]
    assert min(errors) > 0.8, errors
    assert max(errors) < 1.25, errors


def test_after_an_idle_time_the_speed_is_not_forgotten(
    make_queue: Callable[..., EmbedQueue], clock: Clock, jobs_db: Database
) -> None:
    """Fails with the time since the first batch of the last minutes: fifty idle seconds make it ten times slower."""
    queue = make_queue(embed_batch_size=5)
    queue.enqueue(requests(50))
    drain(queue, clock)
    clock.advance(50_000)
    queue.census.record([Worker("w@test", SLOTS)])
    queue.enqueue(requests(200)[50:])
    status = queue.status()
    end = outlook.read(queue, status).done_at
    assert end is not None
    # 150 jobs are thirty batches on four slots.
    assert 150 < end - clock.now < 900
