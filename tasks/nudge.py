"""Asking for a lease transaction: at once, but no more than twenty times a second.

Thousands of enqueues a second must not make thousands of lease transactions, and a caller of `enqueue` must not
wait for the broker. A thread of its own sends the message; wishes that come meanwhile are one wish, and while many wait
that no control worker has taken, none is added. A nudge that is lost costs nothing but time: beat asks every second.
"""

import atexit
import os
import threading
from collections.abc import Callable, Sequence

from neo4j_queue.jobs import EnqueueResult, JobRequest
from neo4j_queue.log import get_logger
from neo4j_queue.queue import EmbedQueue
from tasks.app import app
from tasks.broker import PUBLISH_ERRORS, is_crowded
from tasks.routes import LEASE_BATCH

# Between two messages. It bounds the lease transactions at 20 a second and delays the last of a burst by as much.
INTERVAL_S = 0.05
# After a failed message; beat does the work meanwhile.
AFTER_FAILURE_S = 5.0
# A nudge that waited this long in the broker says nothing new: beat has asked since.
EXPIRES_S = 5.0
# How long the end of a process waits for its last nudge.
FLUSH_S = 1.0

log = get_logger()


class Nudge:
    """Call it after anything that may have made a job due."""

    def __init__(self) -> None:
        self._wished = threading.Event()
        self._idle = threading.Event()
        self._ended = threading.Event()
        self._sent = False
        self._pid = -1
        self._lock = threading.Lock()

    def __call__(self) -> None:
        """Returns at once; never raises."""
        self._idle.clear()
        self._wished.set()
        if self._pid != os.getpid():
            self._start()

    def flush(self) -> bool:
        """Waits, a bounded time, until the last wish was sent; says whether it was."""
        return self._pid == os.getpid() and self._idle.wait(FLUSH_S) and self._sent

    def close(self) -> None:
        """Sends the last wish, within a bounded time, and ends the thread; a later call begins another one."""
        self.flush()
        with self._lock:
            if self._pid != os.getpid():
                return
            self._pid = -1
            atexit.unregister(self.flush)
            self._ended.set()
            self._wished.set()

    def _start(self) -> None:
        with self._lock:
            if self._pid == os.getpid():
                return
            self._pid = os.getpid()
            self._ended = threading.Event()
            threading.Thread(target=self._run, args=(self._ended,), name="nudge", daemon=True).start()
            atexit.register(self.flush)

    def _run(self, ended: threading.Event) -> None:
        while True:
            self._wished.wait()
            if ended.is_set():
                return
            self._wished.clear()
            self._sent = self._send()
            rest_s = INTERVAL_S if self._sent else AFTER_FAILURE_S
            if not self._wished.is_set():
                self._idle.set()
            ended.wait(rest_s)

    def _send(self) -> bool:
        if is_crowded(app.conf.broker_url, LEASE_BATCH):
            return True
        try:
            app.send_task(LEASE_BATCH, expires=EXPIRES_S, retry=False)
        except PUBLISH_ERRORS as error:
            log.warning("nudge_failed", error=str(error), rest_s=AFTER_FAILURE_S)
            return False
        return True


def enqueue_and_nudge(
    queue: EmbedQueue, nudge: Nudge
) -> Callable[[Sequence[JobRequest]], Sequence[EnqueueResult]]:
    """An `enqueue` whose jobs are leased at once, for an `EntityGraph`."""

    def enqueue(requests: Sequence[JobRequest]) -> Sequence[EnqueueResult]:
        results = queue.enqueue(requests)
        nudge()
        return results

    return enqueue
