"""Handing work to the queue after the entities are safely written.

The entities carry `:EmbedPending` since their own transaction. So the queue may be slow, down or wrong here: what
is not handed over is found by the reconcile sweep, and the writer of the entities never waits for long.
"""

import time
from collections.abc import Callable, Sequence

import structlog

from neo4j_queue.in_time import TooLateError, result_of, started
from neo4j_queue.jobs import EnqueueResult, JobRequest

# An idle jobs database answers within milliseconds; a person who saves an entity waits two seconds at most.
WAIT_S = 2.0
# A large call gets more: the slowest enqueueing that was measured (batches of 50) took 0.4 ms for each job.
WAIT_PER_JOB_S = 0.001
# After a timeout no call waits for this long: a writer of many entities should not pay two seconds for each.
REST_S = 5.0

log = structlog.get_logger(__name__)

Enqueue = Callable[[Sequence[JobRequest]], Sequence[EnqueueResult]]
# What is told of entities whose jobs the sweep has to make: how many, and why.
Deferred = Callable[[int, str], None]


def warn(entities: int, reason: str) -> None:
    """A line in the log."""
    log.warning("enqueue_deferred", entities=entities, reason=reason)


class Outbox:
    """Calls `enqueue` within a bounded time; whatever goes wrong there is told to `deferred` and nothing more."""

    def __init__(
        self,
        enqueue: Enqueue | None,
        *,
        wait_s: float = WAIT_S,
        rest_s: float = REST_S,
        deferred: Deferred = warn,
    ) -> None:
        self._enqueue = enqueue
        self._deferred = deferred
        self._wait_s = wait_s
        self._rest_s = rest_s
        self._rest_until = 0.0

    def hand_over(self, requests: Sequence[JobRequest]) -> Sequence[EnqueueResult]:
        """The jobs that stand for the requests, or nothing when the sweep has to do it later; never raises."""
        if self._enqueue is None or not requests:
            return ()
        if time.monotonic() < self._rest_until:
            self._deferred(len(requests), "the queue did not answer just now")
            return ()
        enqueue = self._enqueue
        # On a thread of its own: no driver or broker client can be told a total deadline. A call that comes too late
        # still does its work, which is idempotent.
        answer = started(lambda: enqueue(requests), "enqueue")
        wait_s = self._wait_s + WAIT_PER_JOB_S * len(requests)
        try:
            return result_of(answer, wait_s)
        except TooLateError:
            self._rest_until = time.monotonic() + self._rest_s
            self._deferred(len(requests), f"no answer within {wait_s:.1f} s")
        except Exception as error:  # noqa: BLE001 - the edge: the entities are written whatever this is
            self._deferred(len(requests), f"{type(error).__name__}: {error}")
        return ()
