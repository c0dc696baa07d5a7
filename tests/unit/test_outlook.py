"""What the queue waits for, and when it will be done."""

from dataclasses import replace

import pytest

from neo4j_queue.queue import outlook
from neo4j_queue.queue.leases import QueueStatus, Worker
from neo4j_queue.queue.outlook import waiting_for

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


@pytest.mark.parametrize(
    ("change", "used_up", "expected"),
    [
        ({}, False, None),
        ({}, True, "the rate limit"),
        ({"pending": 0, "processing": 0}, True, None),
        ({"workers": ()}, True, "an embed worker"),
        ({"paused_until": 5, "pause_reason": "429"}, True, "the end of the pause (429)"),
        (
            {"halted": True, "halted_reason": "401", "paused_until": 5},
            False,
            "a person: halted (401), then `neo4j-queue resume`",
        ),
        ({"pending": 0, "processing": 0, "delayed": 3}, False, "the back-off of jobs that failed"),
        ({"pending": 0, "delayed": 3}, False, None),
    ],
)
def test_one_thing_is_named_that_keeps_jobs_waiting(
    change: dict[str, object], used_up: bool, expected: str | None
) -> None:
    """The first in the order in which leasing asks."""
    assert waiting_for(replace(WORKING, **change), used_up=used_up) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "jobs", "since", "done_at"),
    [
        ({}, 20, 80_000, 140_000),
        ({"paused_until": 150_000}, 20, 80_000, 190_000),
        ({}, 0, None, None),
        ({}, 0, 80_000, None),
        ({}, 20, None, None),
        ({"halted": True}, 20, 80_000, None),
        ({"workers": ()}, 20, 80_000, None),
        ({"pending": 0, "processing": 0}, 20, 80_000, None),
    ],
)
def test_the_end_is_told_where_the_pace_is_known(
    change: dict[str, object], jobs: int, since: int | None, done_at: int | None
) -> None:
    """40 jobs, and 20 ended in the last 20 seconds: in 40 seconds. What is not known is not invented."""
    status = replace(WORKING, **change)  # type: ignore[arg-type]
    assert outlook._done_at(status, jobs, since, 100_000) == done_at


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
    assert (waiting_for(status, used_up=False, in_force=in_force) == outlook.DISPLACED) is expected
