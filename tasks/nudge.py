"""Messages that ask the control workers to act soon: to lease, or to sweep the outbox. At once, but not too often.

Thousands of enqueues a second must not make thousands of lease transactions, and a caller of `enqueue` must not wait
for the broker. A thread of its own sends the messages; requests that come meanwhile are one request, and while many
messages wait that no control worker has taken, none is added. A message that the broker does not take is sent again
until it does.
"""

import atexit
import os
import threading
import time
from collections.abc import Callable, Sequence

from neo4j_queue.graph.outbox import REST_S, warn
from neo4j_queue.jobs import EnqueueResult, JobRequest
from neo4j_queue.log import get_logger
from neo4j_queue.queue import EmbedQueue
from tasks.app import app
from tasks.broker import PUBLISH_ERRORS, is_crowded
from tasks.routes import LEASE_BATCH, RECONCILE

# Between two messages. It bounds the lease transactions at 20 a second and delays the last of a burst by as much.
INTERVAL_S = 0.05
# After a failed message; beat does the work meanwhile.
AFTER_FAILURE_S = 5.0
# An outage of the broker is said this often.
SAY_AGAIN_S = 30.0
# How long the end of a process waits for its last nudge.
FLUSH_S = 1.0
# The outbox's rest after a timeout, in which it defers without asking, and a second more: then one sweep finds all.
SWEEP_AFTER_S = REST_S + 1.0

log = get_logger()


class Nudge:
    """Call it after anything that may have made a job due."""

    def __init__(self) -> None:
        # What is to be sent, and when (monotonic seconds).
        self._wishes: dict[str, float] = {}
        self._woken = threading.Event()
        self._idle = threading.Event()
        self._ended = threading.Event()
        self._sent = False
        self._said = float("-inf")
        self._pid = -1
        self._lock = threading.Lock()

    def __call__(self) -> None:
        """Asks for a lease transaction. Returns at once; never raises."""
        self._idle.clear()
        self._wish(LEASE_BATCH, 0.0)

    def after(self, seconds: float) -> None:
        """Asks for a lease transaction in so many seconds, unless one is asked for before; a later call of `after`
        moves it."""
        with self._lock:
            if self._wishes.get(LEASE_BATCH) != 0.0:
                self._wishes.pop(LEASE_BATCH, None)
        self._wish(LEASE_BATCH, time.monotonic() + seconds)

    def sweep(self, after_s: float = 0.0) -> None:
        """Asks for a sweep of the outbox in so many seconds; one that is asked for already is not put off."""
        self._wish(RECONCILE, time.monotonic() + after_s)

    def flush(self) -> bool:
        """Waits, a bounded time, until the last nudge was sent; True if it was."""
        return self._pid == os.getpid() and self._idle.wait(FLUSH_S) and self._sent

    def close(self) -> None:
        """Sends the last nudge, within a bounded time, and ends the thread; a later call begins another one."""
        self.flush()
        with self._lock:
            if self._pid != os.getpid():
                return
            self._pid = -1
            atexit.unregister(self.flush)
            self._ended.set()
            self._woken.set()

    def _wish(self, task: str, at: float) -> None:
        with self._lock:
            self._wishes[task] = min(at, self._wishes.get(task, at))
        self._woken.set()
        if self._pid != os.getpid():
            self._start()

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
            self._woken.wait(self._rest_s())
            if ended.is_set():
                return
            self._woken.clear()
            due = self._due()
            if not due:
                continue
            unsent = [task for task in due if not self._send(task)]
            self._sent = not unsent
            for task in unsent:
                self._wish(task, time.monotonic() + AFTER_FAILURE_S)
            if self._wishes.get(LEASE_BATCH) != 0.0:
                self._idle.set()
            ended.wait(INTERVAL_S if self._sent else AFTER_FAILURE_S)

    def _rest_s(self) -> float | None:
        with self._lock:
            first = min(self._wishes.values(), default=None)
        return None if first is None else min(max(0.0, first - time.monotonic()), threading.TIMEOUT_MAX)

    def _due(self) -> list[str]:
        with self._lock:
            now = time.monotonic()
            due = [task for task, at in self._wishes.items() if at <= now]
            for task in due:
                del self._wishes[task]
        return due

    def _send(self, task: str) -> bool:
        if is_crowded(app.conf.broker_url, task):
            return True
        try:
            app.send_task(task, retry=False)
        except PUBLISH_ERRORS as error:
            if time.monotonic() - self._said >= SAY_AGAIN_S:
                self._said = time.monotonic()
                log.warning("nudge_failed", task=task, error=str(error), retry_s=AFTER_FAILURE_S)
            return False
        self._said = float("-inf")
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


def sweep_what_was_deferred(nudge: Nudge) -> Callable[[int, str], None]:
    """An `on_deferred` for an `EntityGraph`: entities whose jobs could not be made are swept as soon as may be."""

    def deferred(entities: int, reason: str) -> None:
        warn(entities, reason)
        nudge.sweep(SWEEP_AFTER_S)

    return deferred
