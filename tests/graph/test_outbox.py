"""Whatever the queue does after the commit, the writer of an entity goes on."""

import threading
import time
from collections.abc import Sequence

import pytest
from neo4j.exceptions import ServiceUnavailable
from structlog.testing import capture_logs

from neo4j_queue.graph.outbox import Outbox
from neo4j_queue.jobs import Enqueued, EnqueueResult, JobRequest

REQUESTS = [JobRequest("Ada", "mock", "0" * 16)]
RESULTS = [EnqueueResult("1", "Ada", Enqueued.CREATED)]


def test_the_results_of_the_queue_come_back() -> None:
    asked: list[Sequence[JobRequest]] = []

    def enqueue(requests: Sequence[JobRequest]) -> list[EnqueueResult]:
        asked.append(requests)
        return RESULTS

    assert Outbox(enqueue).hand_over(REQUESTS) == RESULTS
    assert asked == [REQUESTS]


def test_nothing_to_hand_over_calls_nobody() -> None:
    def enqueue(requests: Sequence[JobRequest]) -> list[EnqueueResult]:
        raise AssertionError(requests)

    with capture_logs() as logs:
        assert list(Outbox(enqueue).hand_over([])) == []
        assert list(Outbox(None).hand_over(REQUESTS)) == []
    assert logs == []


@pytest.mark.parametrize("error", [ServiceUnavailable("gone"), OSError("broker"), KeyError("a defect")])
def test_any_error_is_a_warning_and_no_more(error: Exception) -> None:
    def enqueue(_: Sequence[JobRequest]) -> list[EnqueueResult]:
        raise error

    with capture_logs() as logs:
        assert list(Outbox(enqueue).hand_over(REQUESTS)) == []
    assert [(line["event"], line["log_level"], line["entities"]) for line in logs] == [
        ("enqueue_deferred", "warning", 1)
    ]
    assert type(error).__name__ in logs[0]["reason"]


def test_a_queue_that_hangs_costs_its_bound_once_and_then_nothing_until_it_has_rested() -> None:
    release = threading.Event()
    calls = []

    def enqueue(requests: Sequence[JobRequest]) -> list[EnqueueResult]:
        calls.append(requests)
        release.wait(20)
        return RESULTS

    outbox = Outbox(enqueue, wait_s=0.2, rest_s=0.3)
    try:
        with capture_logs() as logs:
            began = time.monotonic()
            assert list(outbox.hand_over(REQUESTS)) == []
            assert list(outbox.hand_over(REQUESTS)) == []
            assert time.monotonic() - began < 10
        assert len(calls) == 1
        assert [line["event"] for line in logs] == ["enqueue_deferred"] * 2
    finally:
        release.set()
    deadline = time.monotonic() + 10
    while list(outbox.hand_over(REQUESTS)) != RESULTS:
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)
