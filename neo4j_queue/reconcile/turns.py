"""Sweeps in turns: a long one shares its worker with everything else, and there is one of each scope at a time.

A sweep of a million entities takes many minutes. Done in one go it would hold a slot of the control worker all that
time, two of them would hold two, and no lease, heartbeat or recovery would get through. So a turn lasts about
half a second, and the next one comes when nothing else waits. Where the sweep stands is kept in the jobs database.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from neo4j import Record

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.changes import Changes
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.queue import EmbedQueue, ticks
from neo4j_queue.queue.clock import Clock, server_clock
from neo4j_queue.reconcile import sweep, watermark
from neo4j_queue.reconcile.sweep import Looks, Scope, Sweep, sweep_page, walk, with_left_out
from neo4j_queue.reconcile.watermark import Changed, Marks, Position
from neo4j_queue.schema.changed import why_no_look
from neo4j_queue.settings.readers import CHANGED

# Ticks come once a second and expire before the next one: with its last page a turn must be shorter than that.
TURN_S = 0.5
# Some ten times what a page and the way through the broker take on a busy machine. Two sweeps at once would do no
# harm: the older one stops at its next page.
SILENT_MS = 30_000
# More jobs than a fleet does in some minutes: what a sweep would add stands behind them anyway, and the next one would
# look it up again.
DEEP_JOBS = 100_000
# A sweep rests at least as long as it worked. That of the outbox may be due every two seconds, and finds everything
# again that waits for its vector: a fifth of the time is enough for it.
RESTS, OUTBOX_RESTS = 1, 4


@dataclass(frozen=True, slots=True)
class Turn:
    """What a sweep has done so far. `token` is for its next turn; None: it is at its end, or `lost` to another one."""

    done: Sweep
    token: str | None
    lost: bool = False


class _Step(NamedTuple):
    """A page of a sweep, and where it goes on (`after`; None: at its end, with `marks` for the next one)."""

    looks: Looks
    texts: list[EntityText]
    after: Any
    marks: Mapping[str, Any]


def scope_of(text: str) -> Scope | Changed:
    """The scope that `str` of it names. Raises ValueError for anything else."""
    return Changed(text.removeprefix(CHANGED)) if text.startswith(CHANGED) else Scope(text)


@dataclass(slots=True)
class Sweeps:
    """The sweeps of one jobs database. `clock` and `now` are for tests: seconds, and epoch ms for the statements."""

    graph: EntityGraph
    queue: EmbedQueue
    clock: Callable[[], float] = time.monotonic
    now: Clock = server_clock

    @property
    def _database(self) -> Database:
        return self.queue.database

    def due(self, scope: Scope | Changed, every_ms: int) -> int | None:
        """None while the last sweep of this scope began less than `every_ms` ago; else how often one is due.

        That is more often than `every_ms` where `hasten` said so.
        """
        act = ticks.SWEEPS.format(scope)
        found = self._database.read(
            statement("sweeps/due"), scope=str(scope), act=act, every_ms=every_ms, now=self.now()
        )
        return int(found[0]["every_ms"]) if found else None

    def not_now(self, scope: Scope | Changed) -> str | None:
        """Why no new sweep of this scope may begin by itself now; None if one may.

        What people changed, and what the outbox holds, was asked for by somebody. The rest is only looked for while the
        queue is not deep. None begins before the last one has rested as long as it worked.
        """
        rests = RESTS
        if scope is Scope.OUTBOX:
            rests = OUTBOX_RESTS
            if not self.graph.known().outbox:
                return "the outbox is empty"
        elif self._is_backfill(scope) and (unfinished := self.queue.status().unfinished) > DEEP_JOBS:
            return f"{unfinished:,} jobs are in the queue already"
        if self._database.read(statement("sweeps/at_rest"), scope=str(scope), rests=rests, now=self.now()):
            return "at rest after the last sweep"
        return None

    def impossible(self, scope: Scope | Changed) -> str | None:
        """Why there can be no sweep of this scope at all, and what to do; None if there can."""
        if isinstance(scope, Scope):
            return None
        return why_no_look(self.graph.database, self.graph.label, scope.timestamp)

    def take_turn(self, scope: Scope | Changed, token: str | None = None) -> Turn | None:
        """Sweeps for about half a second: a new sweep, or with the token of the turn before the rest of that one.

        None: a sweep of this scope is under way already, or that turn was taken by someone else.
        """
        following = secrets.token_hex(8)
        granted = self._database.write(
            statement("sweeps/claim"),
            scope=str(scope),
            token=token,
            next=following,
            silent_ms=SILENT_MS,
            made_for=self._settings,
            now=self.now(),
        )
        if not granted:
            return None
        done, until = Sweep(**granted[0]["counts"]), self.clock() + TURN_S
        for step in self._steps(scope, granted[0]):
            done = sweep_page(self.graph, self.queue, step.looks, step.texts, done)
            if not self._move(scope, following, step, done):
                return Turn(done, None, lost=True)
            if step.after is not None and self.clock() >= until:
                return Turn(done, following)
        return Turn(with_left_out(self.graph, scope, done) if isinstance(scope, Scope) else done, None)

    def stranded(self) -> list[tuple[Scope | Changed, str]]:
        """Scope and token of each sweep that has not moved for `SILENT_MS`: its next turn was lost."""
        found = self._database.read(statement("sweeps/stranded"), silent_ms=SILENT_MS, now=self.now())
        return [(scope_of(row["scope"]), row["token"]) for row in found]

    def _is_backfill(self, scope: Scope | Changed) -> bool:
        return isinstance(scope, Scope) or self._marks(scope) is None

    def _marks(self, scope: Changed) -> Marks | None:
        """What the last look has left; None: there was none under these settings."""
        found = self._database.read(statement("sweeps/marks"), scope=str(scope))
        return _marks(found[0], self._settings) if found else None

    @property
    def _settings(self) -> str:
        """What the marks hold for: under other settings every entity may be stale."""
        return sweep.made_for(self.graph, self.queue)

    def _steps(self, scope: Scope | Changed, granted: Record) -> Iterator[_Step]:
        """The way from where the last turn ended."""
        after = granted["after"]
        if isinstance(scope, Scope):
            for texts, last in walk(self.graph, scope, after):
                yield _Step(scope, texts, last, {})
            return
        changes = Changes(self.graph, scope.timestamp)
        settings = self._settings
        before = _marks(granted, settings)
        position = watermark.begin(changes, before) if after is None else Position.loads(after)
        for step in watermark.walk(changes, position, sweep.PAGE):
            goes_on = None if step.position is None else step.position.dumps()
            marks = {"marks": position.marks.dumps(), "marked_for": settings}
            yield _Step(position, step.texts, goes_on, marks)

    def _move(self, scope: Scope | Changed, token: str, step: _Step, done: Sweep) -> bool:
        counts = {name: count for name, count in asdict(done).items() if name != "without_key"}
        moved = self._database.write(
            statement("sweeps/move"),
            scope=str(scope),
            token=token,
            after=step.after,
            counts=counts,
            failed=done.failed,
            marks=step.marks,
            now=self.now(),
        )
        return bool(moved)


def _marks(row: Record, settings: str) -> Marks | None:
    return Marks.loads(row["marks"]) if row["marked_for"] == settings else None
