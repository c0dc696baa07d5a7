"""Waiting until the queue is drained: what `status --wait` does."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neo4j_queue.cli import output, session

if TYPE_CHECKING:
    from neo4j_queue.queue import EmbedQueue
    from neo4j_queue.queue.leases import QueueStatus

LOOK_EVERY_S = 1.0
# A batch may take as long as a request (30 s) without a job that ends. Then the workers are asked who is there.
STILL_S = 30.0
# A database that restarts is back within this time; a person who waits is told at once.
AWAY_S = 60.0

Sleep = Callable[[float], None]


@dataclass
class Wait:
    """Waits for the end of all jobs. `missing` says who of beat and workers is missing, in words; None = not known."""

    queue: "EmbedQueue"
    missing: Callable[[], list[str] | None]
    timeout_s: float | None = None
    monotonic: Callable[[], float] = time.monotonic
    sleep: Sleep = time.sleep

    def until_drained(self) -> str | None:
        """Why it stands still, or was not drained in time; None when no job is left that has not ended.

        A pause that has an end, a back-off, a limit and a provider that is probed pass by themselves: it waits.
        """
        began = changed_at = self.monotonic()
        before: QueueStatus | None = None
        most = 0
        with output.progress("jobs") as advance:
            while True:
                state = self._look()
                if not state.unfinished:
                    return None
                if state.halted:
                    return f"halted: {state.halted_reason or 'no reason given'}; `neo4j-queue resume` ends it"
                most = max(most, state.unfinished)
                advance(most - state.unfinished, most)
                now = self.monotonic()
                if self.timeout_s is not None and now - began >= self.timeout_s:
                    left = output.counted(state.unfinished, "job")
                    return f"{left} left after {output.duration(self.timeout_s)}"
                if before is None or _moved(before, state):
                    before, changed_at = state, now
                elif now - changed_at >= STILL_S:
                    changed_at = now
                    if reason := self._stands_still(state):
                        return reason
                self.sleep(LOOK_EVERY_S)

    def _stands_still(self, state: "QueueStatus") -> str | None:
        """What a person must do before it goes on."""
        from neo4j_queue.queue import outlook

        ahead = outlook.read(self.queue, state)
        if ahead.waiting_for in (outlook.DISPLACED, outlook.NO_REQUESTS):
            return f"it waits for {ahead.waiting_for}"
        missing = self.missing()
        if missing:
            return "; ".join(missing)
        if missing is None and not state.workers:
            return "no embed worker answered lately"
        return None

    def _look(self) -> "QueueStatus":
        from neo4j.exceptions import DriverError, Neo4jError

        from neo4j_queue.errors import TemporarilyUnavailable
        from neo4j_queue.errors.explain import explain, is_temporary

        away_since: float | None = None
        while True:
            try:
                return session.in_time("the jobs database", self.queue.status)
            except (TemporarilyUnavailable, Neo4jError, DriverError) as error:
                if isinstance(error, Neo4jError | DriverError) and not is_temporary(error):
                    raise
                now = self.monotonic()
                if away_since is None:
                    away_since = now
                    session.warn(f"the jobs database does not answer, waiting: {explain(error)}")
                if now - away_since >= AWAY_S:
                    raise
                self.sleep(LOOK_EVERY_S)


def _moved(before: "QueueStatus", now: "QueueStatus") -> bool:
    """True if a job ended, or was leased or given back, since."""
    return (before.completed, before.failed, before.processing, before.pending, before.delayed) != (
        now.completed,
        now.failed,
        now.processing,
        now.pending,
        now.delayed,
    )
