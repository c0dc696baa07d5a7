"""Watches the queue drain, and the processes that drain it."""

import time
from collections.abc import Callable

from neo4j_queue.demo.processes import Crew
from neo4j_queue.errors import Neo4jQueueError
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import QueueStatus

POLL_S = 0.25
# The longest silence that heals by itself: a lock (30 s) that runs out, its recovery (5 s), a worker that
# starts on a busy machine (30 s). Twice that does not heal by itself.
STALL_S = 120.0


class StalledError(Neo4jQueueError):
    """Jobs are left and nothing moves."""


class Watch:
    """Looks at the queue until it is empty. `ended` counts the jobs that ended since this object was made."""

    def __init__(self, queue: EmbedQueue, crew: Crew, say: Callable[[str], None]) -> None:
        self.ended = 0
        self._queue = queue
        self._crew = crew
        self._say = say
        self._ended_before = _ended(queue.status())

    def until_drained(self, advance: Callable[[int, int | None], None]) -> float:
        """Returns when no job is left, with the seconds it took; starts processes again that died.

        Raises `StalledError` when the queue is halted or nothing has moved for `STALL_S` seconds, and
        `ProcessLostError` when a process dies again and again.
        """
        began = moved_at = time.monotonic()
        while True:
            status = self._queue.status()
            ended = max(0, _ended(status) - self._ended_before)
            now = time.monotonic()
            if ended != self.ended:
                self.ended, moved_at = ended, now
            advance(ended, ended + status.unfinished)
            if not status.unfinished:
                return now - began
            if status.halted:
                raise StalledError(f"the queue is halted: {status.halted_reason}")
            for line in self._crew.restart_dead():
                self._say(f"{line}. What the dead one had leased comes back when its lock runs out.")
            if now - moved_at > STALL_S:
                raise StalledError(self._stalled(status))
            time.sleep(POLL_S)

    def _stalled(self, status: QueueStatus) -> str:
        paused = f" Paused: {status.pause_reason}." if status.paused_until else ""
        stalled = f"{status.unfinished:,} jobs are left and nothing moved for {STALL_S:.0f} s.{paused}"
        return f"{stalled}\n{self._crew.tails()}"


def _ended(status: QueueStatus) -> int:
    return status.completed + status.failed
