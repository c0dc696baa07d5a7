"""Queues on the real jobs database, with a clock that only the test moves."""

from collections.abc import Callable
from typing import Any

import pytest

from neo4j_queue.database import Database
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Settings
from tests.queue.interleaving import Race
from tests.queue.scenery import Clock

MakeQueue = Callable[..., EmbedQueue]

# Small numbers, so that a test reads at a glance, and no spread of the back-off, so that it can be exact.
DEFAULTS: dict[str, Any] = {
    "embedding_rate_limit_tokens": "unlimited",
    "embed_batch_size": 10,
    "embed_job_retention_days": 7,
    "embed_job_retry_jitter_factor": 0,
    "embed_job_lock_duration_ms": 100_000,
    "embed_job_heartbeat_interval_ms": 30_000,
    "embed_job_start_deadline_ms": 40_000,
    "embed_request_timeout_ms": 30_000,
}


@pytest.fixture
def clock() -> Clock:
    """The clock of `queue` and `make_queue`."""
    return Clock()


@pytest.fixture
def queue_settings(make_settings: Callable[..., Settings]) -> Callable[..., Settings]:
    """The settings of the tests of the queue: `queue_settings(embed_batch_size=2)`."""
    return lambda **overrides: make_settings(**{**DEFAULTS, **overrides})


@pytest.fixture
def make_queue(jobs_db: Database, queue_settings: Callable[..., Settings], clock: Clock) -> MakeQueue:
    """Makes queues on the wiped database: `make_queue(embed_batch_size=2)`."""
    return lambda **overrides: EmbedQueue(jobs_db, queue_settings(**overrides), clock=clock)


@pytest.fixture
def queue(make_queue: MakeQueue) -> EmbedQueue:
    """The queue that most tests need."""
    return make_queue()


@pytest.fixture
def race(jobs_db: Database, queue_settings: Callable[..., Settings], clock: Clock) -> Race:
    """Runs two calls with a forced interleaving."""
    return Race(jobs_db, queue_settings(), clock)
