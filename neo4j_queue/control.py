"""What the lease transaction judges: halt, pause, free slots and the rate budget.

The facts come from the database (`cypher/jobs/lease_judge.cypher`); the judgement is the pure function `judge`.
"""

from dataclasses import dataclass
from typing import Any

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database

# Batches that may be open for each slot of an embed worker: one that runs and one that waits behind it, so that a
# worker finds its next batch at once. More would only grow old in the broker, where the start deadline runs.
OPEN_PER_SLOT = 2

# A worker that has been silent for this many heartbeats offers no slot (one late or lost answer is forgiven).
SILENT_HEARTBEATS = 2.5

# The provider counts a request when it arrives, the queue when it was sent. A request leaves the queue's window
# this much later than the provider's: time for the way there, or a twentieth of a short window.
WINDOW_MARGIN_MS = 250
WINDOW_MARGIN_SHARE = 20

# Every n-th lease transaction begins with another priority than the highest, each in turn: so a job of any
# priority is reached within FAIR_EVERY x 10 lease transactions, however many more urgent ones keep coming.
FAIR_EVERY = 8
PRIORITIES = (9, 8, 7, 6, 5, 4, 3, 2, 1, 0)

NO_BUDGET = "no budget"


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """The state that one lease transaction sees under the control lock. Times in epoch ms, server clock."""

    now: int
    seq: int
    turn: int
    halted: bool
    paused_until: int | None
    slots: int
    open_leases: int
    spent_requests: int
    spent_tokens: int


@dataclass(frozen=True, slots=True)
class Limits:
    """Provider requests and model tokens per interval, over all workers; `None` = unlimited."""

    requests: int | None
    tokens: int | None
    interval_ms: int

    @property
    def window_ms(self) -> int:
        """How long a request counts: the interval and the margin."""
        return self.interval_ms + min(WINDOW_MARGIN_MS, self.interval_ms // WINDOW_MARGIN_SHARE)


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many batches may be leased, and how many model tokens (`None` = unlimited); 0 batches has a reason."""

    batches: int
    tokens: int | None = None
    reason: str | None = None


def judge(facts: LeaseFacts, limits: Limits, batches: int | None) -> Allowance:
    """What may be leased now.

    `batches` is the number of free slots that the caller vouches for; `None` takes the free slots of the census.
    """
    if facts.halted:
        return Allowance(0, reason="halted")
    if facts.paused_until is not None and facts.paused_until > facts.now:
        return Allowance(0, reason="paused")
    free = facts.slots * OPEN_PER_SLOT - facts.open_leases if batches is None else batches
    if free <= 0:
        return Allowance(0, reason="no workers" if batches is None and facts.slots == 0 else "no free slots")
    requests = free if limits.requests is None else limits.requests - facts.spent_requests
    tokens = None if limits.tokens is None else limits.tokens - facts.spent_tokens
    if requests <= 0 or (tokens is not None and tokens <= 0):
        return Allowance(0, reason=NO_BUDGET)
    return Allowance(min(free, requests), tokens)


def order_of_priorities(turn: int) -> tuple[int, ...]:
    """Highest first; on each fair turn another one goes before."""
    if turn % FAIR_EVERY:
        return PRIORITIES
    first = PRIORITIES[(turn // FAIR_EVERY) % len(PRIORITIES)]
    return (first, *(p for p in PRIORITIES if p != first))


@dataclass(frozen=True, slots=True)
class ControlState:
    """The switches of the queue. Times in epoch ms, server clock; `now` is when they were read."""

    halted: bool
    halted_reason: str | None
    halted_at: int | None
    paused_until: int | None
    pause_reason: str | None
    now: int

    @property
    def paused(self) -> bool:
        """Is a pause in force?"""
        return self.paused_until is not None and self.paused_until > self.now


class Control:
    """The control node: pause, halt, resume."""

    def __init__(self, database: Database, now: Any = None) -> None:
        self._database = database
        self._now = now or (lambda: None)

    def state(self) -> ControlState:
        """The switches as they stand."""
        (row,) = self._database.read(statement("control/state"), now=self._now())
        return ControlState(**row.data())

    def pause(self, seconds: float, reason: str) -> int:
        """No lease and no start for so many seconds; a longer pause in force stays. Returns its end (epoch ms)."""
        (row,) = self._database.write(
            statement("control/pause"), ms=max(0, round(seconds * 1000)), reason=reason, now=self._now()
        )
        return int(row["paused_until"])

    def halt(self, reason: str) -> bool:
        """Stops the queue until `resume`. False when it was halted already (the first reason stands)."""
        (row,) = self._database.write(statement("control/halt"), reason=reason, now=self._now())
        return bool(row["changed"])

    def resume(self) -> tuple[bool, bool]:
        """Ends halt and pause; says whether there was a halt, and whether there was a pause."""
        (row,) = self._database.write(statement("control/resume"), now=self._now())
        return bool(row["halted"]), bool(row["paused"])
