"""Sweeps in turns: a long one shares its worker with everything else, and there is one of each scope at a time.

A sweep of a million entities takes many minutes. Done in one go it would hold a slot of the control worker all that
time, two of them would hold two, and no lease, heartbeat or recovery would get through. So a turn lasts about
half a second, and the next one comes when nothing else waits. Where the sweep stands is kept in the jobs database.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.keys import Place
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.clock import Clock, server_clock
from neo4j_queue.reconcile.sweep import Scope, Sweep, sweep_page, walk, with_left_out

# Ticks come once a second and expire before the next one: with its last page a turn must be shorter than that.
TURN_S = 0.5
# Some ten times what a page and the way through the broker take on a busy machine. Two sweeps at once would do no
# harm: the older one stops at its next page.
SILENT_MS = 30_000
# More jobs than a fleet does in some minutes: what a sweep would add stands behind them anyway, and the next one would
# look it up again.
DEEP_JOBS = 100_000


@dataclass(frozen=True, slots=True)
class Turn:
    """What a sweep has done so far. `token` is for its next turn; None: it is at its end, or `lost` to another one."""

    done: Sweep
    token: str | None
    lost: bool = False


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

    def not_now(self, scope: Scope) -> str | None:
        """Why no new sweep of this scope may begin by itself now; None if one may.

        What the outbox holds was asked for by somebody. The rest is only looked for while the queue is not deep, and
        not before the last sweep has rested as long as it worked.
        """
        if scope is Scope.OUTBOX:
            return None
        if (unfinished := self.queue.status().unfinished) > DEEP_JOBS:
            return f"{unfinished:,} jobs are in the queue already"
        if self._database.read(statement("sweeps/at_rest"), scope=scope, now=self.now()):
            return "at rest after the last sweep"
        return None

    def take_turn(self, scope: Scope, token: str | None = None) -> Turn | None:
        """Sweeps for about half a second: a new sweep, or with the token of the turn before the rest of that one.

        None: a sweep of this scope is under way already, or that turn was taken by someone else.
        """
        following = secrets.token_hex(8)
        granted = self._database.write(
            statement("sweeps/claim"),
            scope=scope,
            token=token,
            next=following,
            silent_ms=SILENT_MS,
            now=self.now(),
        )
        if not granted:
            return None
        after: Place | None = granted[0]["after"]
        done, until = Sweep(**granted[0]["counts"]), self.clock() + TURN_S
        for step in walk(self.graph, scope, after):
            done = sweep_page(self.graph, self.queue, scope, step.texts, done)
            if not self._move(scope, following, step.last, done):
                return Turn(done, None, lost=True)
            if step.last is not None and self.clock() >= until:
                return Turn(done, following)
        return Turn(with_left_out(self.graph, scope, done), None)

    def stranded(self) -> list[tuple[Scope, str]]:
        """Scope and token of each sweep that has not moved for `SILENT_MS`: its next turn was lost."""
        found = self._database.read(statement("sweeps/stranded"), silent_ms=SILENT_MS, now=self.now())
        return [(Scope(row["scope"]), row["token"]) for row in found]

    def _move(self, scope: Scope, token: str, after: Place | None, done: Sweep) -> bool:
        counts = {name: count for name, count in asdict(done).items() if name != "without_key"}
        moved = self._database.write(
            statement("sweeps/move"),
            scope=scope,
            token=token,
            after=after,
            counts=counts,
            failed=done.failed,
            now=self.now(),
        )
        return bool(moved)
