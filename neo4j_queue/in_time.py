"""Calls on threads of their own: started and waited for later, or given up after a time for a person who waits."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, TypeVar

from neo4j_queue.errors import TemporarilyUnavailable

# Calls that may go on after they were given up. More of them at once mean that nothing answers there: the next ones are
# told so without a thread of their own.
MOST_LATE = 32

T = TypeVar("T")


def started(work: Callable[[], T], name: str) -> "Future[T]":
    """What `work` will return or raise; it runs on a daemon thread, which keeps no program from ending.

    A pool's threads would: Python waits for each of them, and none can be told to stop in the middle of a statement.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            future.set_exception(error)

    threading.Thread(target=copy_context().run, args=(run,), name=name, daemon=True).start()
    return future


class TooLateError(Exception):
    """A call has not ended in time, and goes on."""


def result_of(call: "Future[T]", within_s: float) -> T:
    """What a call returned or raised. Raises `TooLateError` if it has not ended within so many seconds."""
    try:
        return call.result(within_s)
    except TimeoutError:
        if call.done():  # it has just ended, or the error is its own
            return call.result()
    raise TooLateError


class InTime:
    """Runs calls, each on a thread of its own, since no driver can be told a total deadline.

    A call that comes too late goes on by itself, and its result is lost: for reads, and for what keeps its result.
    """

    def __init__(self, what: str, *, most_late: int = MOST_LATE) -> None:
        self._what = what
        self._most_late = most_late
        self._lock = threading.Lock()
        self._late: set[Future[Any]] = set()

    def __call__(self, work: Callable[[], T], within_s: float) -> T:
        """What `work` returns or raises. Raises `TemporarilyUnavailable` if that takes more than `within_s` seconds."""
        return self.begin(work, within_s)()

    def begin(self, work: Callable[[], T], within_s: float) -> Callable[[], T]:
        """Begins `work`; the answer is a call that waits for it, until `within_s` seconds from now. For one caller."""
        with self._lock:
            if len(self._late) >= self._most_late:
                raise TemporarilyUnavailable(f"{self._what} still owes {len(self._late)} earlier answers")
        call, until = started(work, self._what), time.monotonic() + within_s

        def wait() -> T:
            try:
                return result_of(call, max(0.0, until - time.monotonic()))
            except TooLateError:
                with self._lock:
                    self._late.add(call)
                # Called at once if it has ended meanwhile.
                call.add_done_callback(self._ended)
            raise TemporarilyUnavailable(f"{self._what} gave no answer within {within_s:g} s")

        return wait

    def _ended(self, call: "Future[Any]") -> None:
        with self._lock:
            self._late.discard(call)
