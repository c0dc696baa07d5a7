"""Booking a search on the rate limit that all workers share, within a bounded time."""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import copy_context

from neo4j_queue.log import get_logger

# Books one provider request for so many model tokens; False = the rate limit has no room now.
BookQuery = Callable[[int], bool]

# An idle jobs database books within ten milliseconds. A fifth of a second is hardly noticed in a search.
WAIT_S = 0.2
# After a booking that failed or came too late no search waits for this long, or until the late one is there.
REST_S = 5.0
# Requests that are booked when the jobs database answers again. More of them fill any window anyway.
OWED_MOST = 1_000

log = get_logger()


class BoundedBooking:
    """Books searches, each on a thread of its own since no driver can be told a total deadline.

    A search that got no answer in time goes on: it needs the provider and the graph, not the jobs database. Its
    request is booked as soon as that answers, so that the windows after it are right.
    """

    def __init__(
        self,
        book: BookQuery,
        *,
        wait_s: float = WAIT_S,
        rest_s: float = REST_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._book = book
        self._wait_s = wait_s
        self._rest_s = rest_s
        self._monotonic = monotonic
        self._rest_until = 0.0
        self._owed: deque[int] = deque(maxlen=OWED_MOST)

    def __call__(self, est_tokens: int) -> bool:
        """True if the search may send its request now: it is booked, or the jobs database did not answer."""
        if self._monotonic() < self._rest_until:
            self._owed.append(est_tokens)
            return True
        answer = self._start(est_tokens)
        try:
            result = answer.get(timeout=self._wait_s)
        except queue.Empty:
            self._rest(f"no answer within {self._wait_s:g} s")
            return True
        if isinstance(result, Exception):
            self._rest(f"{type(result).__name__}: {result}")
            # Without the jobs database nothing is leased either, so searches are all that the provider sees.
            return True
        return result

    def _rest(self, reason: str) -> None:
        self._rest_until = self._monotonic() + self._rest_s
        log.debug("query_not_booked", error=reason)

    def _start(self, est_tokens: int) -> "queue.SimpleQueue[bool | Exception]":
        answer: queue.SimpleQueue[bool | Exception] = queue.SimpleQueue()

        def work() -> None:
            try:
                booked = self._book(est_tokens)
                answer.put(booked)
                self._rest_until = 0.0
                self._book_owed()
            except Exception as error:  # noqa: BLE001 - the edge: a search goes on whatever this is
                answer.put(error)

        threading.Thread(target=copy_context().run, args=(work,), name="book", daemon=True).start()
        return answer

    def _book_owed(self) -> None:
        while self._owed:
            try:
                est_tokens = self._owed.popleft()
            except IndexError:  # another thread was faster
                return
            self._book(est_tokens)
