"""Waiting in tests: by a condition and a deadline, never for a time that should be long enough."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# The longer a wait has lasted, the rarer it asks: for most answers a database counts thousands of jobs.
POLL_S = 0.05
MOST_POLL_S = 0.5
OF_THE_WAIT = 0.1


def wait_until(condition: Callable[[], T], *, within_s: float, what: str) -> T:
    """The first truthy answer of `condition`; fails, naming what was waited for, after `within_s` seconds."""
    began = time.monotonic()
    while True:
        answer = condition()
        if answer:
            return answer
        waited = time.monotonic() - began
        if waited > within_s:
            raise AssertionError(f"not within {within_s} s: {what} (last answer: {answer!r})")
        time.sleep(min(max(POLL_S, waited * OF_THE_WAIT), MOST_POLL_S))
