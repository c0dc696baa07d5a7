"""Calls that are given up after a time, for a person who waits."""

import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import TypeVar, cast

from neo4j_queue.errors import TemporarilyUnavailable

# Calls that may go on after they were given up. More of them at once mean that nothing answers there: the next ones are
# told so without a thread of their own.
MOST_LATE = 32

T = TypeVar("T")


class InTime:
    """Runs calls, each on a thread of its own, since no driver can be told a total deadline.

    A call that comes too late goes on by itself, and its result is lost: for reads, and for what keeps its result.
    """

    def __init__(self, what: str, *, most_late: int = MOST_LATE) -> None:
        self._what = what
        self._most_late = most_late
        self._lock = threading.Lock()
        self._late: set[object] = set()

    def __call__(self, work: Callable[[], T], within_s: float) -> T:
        """What `work` returns or raises. Raises `TemporarilyUnavailable` if that takes more than `within_s` seconds."""
        with self._lock:
            if len(self._late) >= self._most_late:
                raise TemporarilyUnavailable(f"{self._what} still owes {len(self._late)} earlier answers")
        answer: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()
        call = object()

        def run() -> None:
            try:
                answer.put((work(), None))
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                answer.put((None, error))
            finally:
                with self._lock:
                    self._late.discard(call)

        threading.Thread(target=copy_context().run, args=(run,), name=self._what, daemon=True).start()
        result, error = self._waited(answer, call, within_s)
        if error is not None:
            raise error
        return cast(T, result)

    def _waited(
        self, answer: "SimpleQueue[tuple[T | None, BaseException | None]]", call: object, within_s: float
    ) -> tuple[T | None, BaseException | None]:
        try:
            return answer.get(timeout=within_s)
        except Empty:
            with self._lock:
                # Under the lock that the thread takes at its end: one that has just ended is not late.
                if answer.empty():
                    self._late.add(call)
                    raise TemporarilyUnavailable(
                        f"{self._what} gave no answer within {within_s:g} s"
                    ) from None
            return answer.get()
