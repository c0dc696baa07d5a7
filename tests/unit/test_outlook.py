"""What the queue waits for, and when it will be done."""

from dataclasses import replace

import pytest

from neo4j_queue.queue import outlook
from neo4j_queue.queue.budget import RateLimits
from neo4j_queue.queue.forecast import Speed
from neo4j_queue.queue.leases import QueueStatus, Silent, Worker
from neo4j_queue.queue.outlook import Facts, waiting_for

WORKING = QueueStatus(
    pending=30,
    delayed=0,
    processing=10,
    started=10,
    completed=0,
    failed=0,
    total=40,
    oldest_pending_seconds=1.0,
    halted=False,
    halted_reason=None,
    paused_until=None,
    pause_reason=None,
    workers=(Worker("w", 2),),
    now=0,
)
SPEED = Speed(jobs=20, busy_ms=20_000, batch_ms=1_000)


@pytest.mark.parametrize(
    ("change", "used_up", "expected"),
    [
        ({}, None, None),
        ({}, "the rate limit", "the rate limit"),
        ({"pending": 0, "processing": 0}, "the rate limit", None),
        ({"workers": ()}, "the rate limit", "an embed worker"),
        ({"silent": (Silent("w", 40_000),)}, "the rate limit", "an embed worker"),
        ({"silent": (Silent("other", 40_000),)}, "the rate limit", "the rate limit"),
        ({"paused_until": 5, "pause_reason": "429"}, "the rate limit", "the end of the pause (429)"),
        (
            {"halted": True, "halted_reason": "401", "paused_until": 5},
            None,
            "a person: halted (401), then `neo4j-queue resume`",
        ),
        ({"pending": 0, "processing": 0, "delayed": 3}, None, "the back-off of jobs that failed"),
        ({"pending": 0, "delayed": 3}, None, None),
        (
            {"trouble": "outage"},
            None,
            "a probe that finds out whether the provider works again (outage)",
        ),
    ],
)
def test_one_thing_is_named_that_keeps_jobs_waiting(
    change: dict[str, object], used_up: str | None, expected: str | None
) -> None:
    """The first in the order in which leasing asks."""
    assert waiting_for(replace(WORKING, **change), used_up=used_up) == expected  # type: ignore[arg-type]


def test_a_limit_of_nothing_waits_for_a_person() -> None:
    limits = RateLimits(0, None, 60_000)
    assert waiting_for(WORKING, used_up=None, limits=limits) == outlook.NO_REQUESTS


@pytest.mark.parametrize(
    ("change", "speed", "done_at"),
    [
        ({}, SPEED, 141_000),
        ({"paused_until": 150_000}, SPEED, 191_000),
        ({"delayed": 10}, SPEED, 501_000),
        ({}, None, None),
        ({"halted": True}, SPEED, None),
        ({"workers": ()}, SPEED, None),
        ({"trouble": "outage"}, SPEED, None),
        ({"trouble": "rate_limit", "paused_until": 150_000}, SPEED, 191_000),
        ({"pending": 0, "processing": 0}, SPEED, None),
    ],
)
def test_the_end_is_told_where_the_pace_is_known(
    change: dict[str, object], speed: Speed | None, done_at: int | None
) -> None:
    """41 jobs, and 20 ended in 20 seconds of work: in 41 seconds. What is not known is not invented."""
    status = replace(WORKING, **{"pending": 31, "now": 100_000, **change})  # type: ignore[arg-type]
    facts = Facts((), speed, 1.0, 0.0, 500_000 if status.delayed else None, None)
    assert outlook._done_at(status, facts) == done_at


@pytest.mark.parametrize(
    ("marks", "in_force", "expected"),
    [
        (("label:1",), "label:2", True),
        (("label:1", "label:2"), "label:2", False),
        (("label:1",), None, False),
        ((None,), "label:2", False),
        ((), "label:2", False),
    ],
)
def test_workers_that_init_left_behind_do_no_work(
    marks: tuple[str | None, ...], in_force: str | None, expected: bool
) -> None:
    """Fails without `displaced`: nothing was waited for, and an end was promised."""
    status = replace(WORKING, workers=tuple(Worker("w", 1, fingerprint=mark) for mark in marks))
    assert outlook.displaced(status, in_force) is expected
    assert (waiting_for(status, used_up=None, in_force=in_force) == outlook.DISPLACED) is expected
