"""The control node: pause, halt, resume, and what is known of the provider."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from neo4j import ManagedTransaction

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database, rows, the_row
from neo4j_queue.errors import Fault, FaultKind
from neo4j_queue.queue import health, tally
from neo4j_queue.queue.breaker import FailureNews, Trouble, note_failure, note_success
from neo4j_queue.queue.clock import Clock, server_clock
from neo4j_queue.queue.provider_limits import ProviderReport, found_inputs


@dataclass(frozen=True, slots=True)
class ControlState:
    """The switches of the queue. Times in epoch ms, server clock; `now` is when they were read."""

    halted: bool
    halted_reason: str | None
    halted_at: int | None
    paused_until: int | None
    pause_reason: str | None
    trouble: str | None
    trouble_rounds: int
    now: int
    refused_inputs: int | None = None
    refused_inputs_at: int | None = None
    slow_inputs: int | None = None
    slow_inputs_at: int | None = None

    @property
    def found_inputs(self) -> int | None:
        """The inputs that one provider request may hold, if a larger one was refused or too slow."""
        return found_inputs(
            self.now, self.refused_inputs, self.refused_inputs_at, self.slow_inputs, self.slow_inputs_at
        )

    @property
    def paused(self) -> bool:
        """True while a pause is in force."""
        return self.paused_until is not None and self.paused_until > self.now


class Resumed(NamedTuple):
    """What `resume` ended: a halt, a pause, trouble with the provider."""

    halted: bool
    paused: bool
    troubled: bool


class Control:
    """The control node: pause, halt, resume, and what is known of the provider.

    Everything but a person's pause is part of the health; the call that changes the health logs the change.
    """

    def __init__(self, database: Database, clock: Clock = server_clock) -> None:
        self._database = database
        self._now = clock

    def state(self) -> ControlState:
        """The switches now."""
        row = the_row(self._database.read(statement("control/state"), now=self._now()))
        return ControlState(**row.data())

    def pause(self, seconds: float, reason: str) -> int:
        """Refuses leases and starts for `seconds`; a longer pause in force stays. Returns its end (epoch ms)."""
        ms = max(0, round(seconds * 1000))
        why = "store" if reason.startswith(f"{FaultKind.STORE}: ") else "person"

        def act(tx: ManagedTransaction) -> int:
            row = the_row(rows(tx, statement("control/pause"), ms=ms, reason=reason, now=self._now()))
            tally.add(tx, {f"pauses:{why}": 1})
            return int(row["paused_until"])

        return self._database.transaction(act)

    def halt(self, reason: str) -> bool:
        """Stops the queue until `resume`. False if it was halted already (the first reason stands)."""

        def act(tx: ManagedTransaction) -> bool:
            row = the_row(rows(tx, statement("control/halt"), reason=reason, now=self._now()))
            tally.add(tx, {"halts": int(row["changed"])})
            return bool(row["changed"])

        changed = self._database.transaction(act)
        if changed:
            self._tell_health()
        return changed

    def resume(self, *, halt: bool = True, pause: bool = True) -> Resumed:
        """Ends the halt, the pause, or both; with both it also forgets the trouble with the provider, which would let
        out a probe first. Says what it ended."""
        ended = the_row(
            self._database.write(statement("control/resume"), halt=halt, pause=pause, now=self._now())
        )
        self._tell_health()
        return Resumed(**ended.data())

    def provider_failed(
        self, token: str, ids: Sequence[str], fault: Fault, *, to_open: int
    ) -> FailureNews | None:
        """Notes that the provider failed a request for these jobs, or that the graph refused all of them. The queue
        rests after `to_open` failures in a row.

        None if the lease was lost: its error may already be fixed.
        """
        news = self._database.transaction(
            lambda tx: note_failure(tx, token, ids, fault, to_open=to_open, now=self._now())
        )
        if news is not None and news.begins:
            self._tell_health()
        return news

    def provider_works(self, token: str) -> Trouble | None:
        """Notes that the provider answered a request of this lease; returns the trouble that it ended."""
        ended = self._database.transaction(lambda tx: note_success(tx, token, now=self._now()))
        if ended is not None:
            self._tell_health()
        return ended

    def _tell_health(self) -> None:
        health.announce(self._database.transaction(lambda tx: health.record(tx, [], self._now())))

    def clock_set_back_ms(self) -> int:
        """How far the server's clock was set back since the last lease ended: a restore on another host, or a failover.
        Pauses, locks and back-offs last longer by as much."""
        row = the_row(self._database.read(statement("control/clock_set_back"), now=self._now()))
        return int(row["behind_ms"])

    def provider_reported(self, report: ProviderReport) -> None:
        """Notes the limits that the provider names, and how it counts tokens."""
        self._database.write(statement("control/provider_report"), **asdict(report), now=self._now())

    def size_found(self, refused: int | None, slow: int | None) -> None:
        """Notes how many inputs a request may hold: larger ones were `refused`, or too `slow` for the deadline."""
        self._database.write(statement("control/found_size"), refused=refused, slow=slow, now=self._now())

    def provider_report(self) -> ProviderReport:
        """The last report, whatever its age."""
        return ProviderReport(**the_row(self._database.read(statement("control/provider_limits"))).data())
