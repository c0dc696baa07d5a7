"""A call that comes too late is given up, and late ones do not pile up."""

import threading
import time
from contextvars import ContextVar

import pytest

from neo4j_queue.errors import TemporarilyUnavailable
from neo4j_queue.in_time import InTime
from tests.waiting import wait_until


def test_an_answer_in_time_is_handed_on_and_so_is_an_error() -> None:
    in_time = InTime("it")
    assert in_time(lambda: 7, 5) == 7
    with pytest.raises(KeyError, match="k"):
        in_time(lambda: {}["k"], 5)


def test_a_late_answer_is_said_in_one_line_at_its_time() -> None:
    let = threading.Event()
    began = time.monotonic()
    with pytest.raises(TemporarilyUnavailable, match=r"^it gave no answer within 0\.1 s$"):
        InTime("it")(lambda: let.wait(10), 0.1)
    assert time.monotonic() - began < 2
    let.set()


def test_late_calls_are_bounded_and_the_bound_ends_with_them() -> None:
    """Seen failing without the bound: each search against a frozen server left a thread behind."""
    let = threading.Event()
    in_time = InTime("it", most_late=3)
    for _ in range(3):
        with pytest.raises(TemporarilyUnavailable, match="no answer"):
            in_time(lambda: let.wait(10), 0.01)
    asked: list[int] = []
    with pytest.raises(TemporarilyUnavailable, match="it still owes 3 earlier answers"):
        in_time(lambda: asked.append(1), 0.01)
    assert asked == []
    let.set()
    wait_until(lambda: not in_time._late, within_s=10, what="the late ones ended")
    assert in_time(lambda: 7, 5) == 7


def test_a_call_sees_the_context_of_the_caller() -> None:
    """Log lines carry what is bound there."""
    bound: ContextVar[str] = ContextVar("bound")
    bound.set("here")
    assert InTime("it")(bound.get, 5) == "here"
