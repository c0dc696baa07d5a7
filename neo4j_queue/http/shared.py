"""One look for all who ask at the same time, so that probes cost the same however many there are."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from neo4j_queue.errors import classify
from neo4j_queue.log import get_logger

T = TypeVar("T")

log = get_logger()


class Shared(Generic[T]):
    """Looks on a thread of its own; who asks while a look is under way, or within `fresh_s` seconds after it, gets the
    same answer. `look` must take a bounded time: the end of the program waits for it."""

    def __init__(self, look: Callable[[], T], fresh_s: float) -> None:
        self._look = look
        self._fresh_s = fresh_s
        self._under_way: asyncio.Task[T] | None = None
        self._ended_at = float("-inf")

    async def get(self) -> T:
        """The answer, or what the look raised."""
        task = self._under_way
        if task is None or (task.done() and time.monotonic() - self._ended_at > self._fresh_s):
            task = asyncio.create_task(self._looked())
            self._under_way = task
        # A client that hangs up does not end the look of the others.
        return await asyncio.shield(task)

    async def _looked(self) -> T:
        try:
            return await asyncio.to_thread(self._look)
        finally:
            self._ended_at = time.monotonic()


class Remembered(Generic[T]):
    """An answer that takes seconds, for those who cannot wait: the last one while it is younger than `good_s`, and a
    new look in the background when it is older than `fresh_s`."""

    def __init__(
        self,
        look: Callable[[], T],
        *,
        fresh_s: float,
        good_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._fresh_s = fresh_s
        self._good_s = good_s
        self._clock = clock
        self._lock = threading.Lock()
        self._last: tuple[float, T] | None = None
        self._looking = False

    def get(self) -> T:
        """The answer; waits for it only where there is none that is good."""
        with self._lock:
            last = self._last
            age = float("inf") if last is None else self._clock() - last[0]
            begin = self._fresh_s < age <= self._good_s and not self._looking
            self._looking = self._looking or begin
        if last is None or age > self._good_s:
            return self._looked()
        if begin:
            threading.Thread(target=self._in_background, name="look", daemon=True).start()
        return last[1]

    def last(self) -> T | None:
        """The last answer, None before the first; waits for nothing."""
        with self._lock:
            found, at = (None, float("-inf")) if self._last is None else (self._last[1], self._last[0])
            begin = self._clock() - at > self._fresh_s and not self._looking
            self._looking = self._looking or begin
        if begin:
            threading.Thread(target=self._in_background, name="look", daemon=True).start()
        return found

    def _looked(self) -> T:
        found = self._look()
        with self._lock:
            self._last = self._clock(), found
        return found

    def _in_background(self) -> None:
        try:
            self._looked()
        except Exception as error:  # noqa: BLE001 - the answer before stands; whoever waits for one is told the error
            log.debug("look_failed", error=classify(error).message)
        finally:
            with self._lock:
                self._looking = False
