"""Waiting in tests: by a condition and a deadline, never for a time that should be long enough."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.05


def wait_until(condition: Callable[[], T], *, within_s: float, what: str) -> T:
    """The first truthy answer of `condition`; fails, naming what was waited for, after `within_s` seconds."""
    deadline = time.monotonic() + within_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {what} (last answer: {answer!r})")
        time.sleep(POLL_S)
