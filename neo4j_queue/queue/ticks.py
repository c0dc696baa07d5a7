"""Recurring acts by the database's clock: when each was last taken, and when leasing may go on by itself.

A tick of beat is only a hint that an act may be due. The act is taken here, once, whichever process asks and whatever
its clock says: so ticks need no expiry, two beats do nothing twice, and an act that no tick reached is overdue.
"""

from dataclasses import dataclass

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database, the_row
from neo4j_queue.queue.budget import RateLimits, with_margin
from neo4j_queue.queue.clock import Clock
from neo4j_queue.queue.provider_limits import WINDOW_MS

# Properties of the control node, each the time (epoch ms) at which the act was taken last.
HEARTBEAT = "heartbeat_at"
CLEANUP = "cleanup_at"
RETRY_QUOTA = "retry_quota_at"
SWEEPS = "sweep_{}_at"
CLOCKS_TOLD = "clocks_told_at"
FOREIGN_TOLD = "foreign_told_at"
IMPOSSIBLE_TOLD = "impossible_told_at"
SAMPLED = "sampled_at"

# Beat asks for a lease transaction this often.
TICK_MS = 1_000
# And whether the outbox is to be swept: with a second for the batch, an edit that a trigger of the graph has marked has
# its vector within four seconds.
OUTBOX_TICK_MS = 2_000
# Three ticks, and half of one for the way: so long after its last tick beat, or whoever takes its ticks, is missing.
MISSING_MS = 3_500
# The note of a lease tick is renewed at most twice a tick, whatever the number of nudges.
NOTE_EVERY_MS = TICK_MS // 2
# How deep the queue is is written down once a minute: a day of it is 1,440 small nodes.
SAMPLE_EVERY_MS = 60_000


@dataclass(frozen=True, slots=True)
class Ages:
    """Milliseconds since the last tick of beat that was run, lease task and heartbeat; None = never."""

    beat_ms: int | None
    lease_ms: int | None
    heartbeat_ms: int | None

    @property
    def beat_is_missing(self) -> bool:
        """True if no tick of beat was run lately."""
        return self.beat_ms is None or self.beat_ms > MISSING_MS


class Ticks:
    """The recurring acts of one queue."""

    def __init__(self, database: Database, limits: RateLimits, clock: Clock) -> None:
        self._database = database
        self._limits = limits
        self._now = clock

    def take(self, act: str, every_ms: int) -> bool:
        """True for one caller, if the act was not taken within `every_ms`."""
        found = self._database.write(statement("ticks/take"), act=act, every_ms=every_ms, now=self._now())
        return bool(found)

    def note(self, *, beat: bool) -> bool:
        """A lease task runs; `beat` sent it. True if a sample of the queue is due (`history.keep`)."""
        found = self._database.write(
            statement("ticks/note"),
            beat=beat,
            every_ms=NOTE_EVERY_MS,
            sample_ms=SAMPLE_EVERY_MS,
            now=self._now(),
        )
        return bool(found) and bool(found[0]["sample_due"])

    def now_ms(self) -> int:
        """The database's time."""
        return int(the_row(self._database.read(statement("retention/clock")))["now"])

    def ages(self) -> Ages:
        """How long ago the ticks came."""
        return Ages(**the_row(self._database.read(statement("ticks/ages"), now=self._now())).data())

    def next_moment_ms(self) -> int | None:
        """Milliseconds until leasing may go on by itself; None = at no known moment, or beat asks anyway."""
        row = the_row(
            self._database.read(
                statement("ticks/next_moment"),
                interval_ms=self._limits.window_ms,
                minute_ms=with_margin(WINDOW_MS),
                now=self._now(),
            )
        )
        if row["halted"] or (row["beat_ms"] is not None and row["beat_ms"] <= MISSING_MS):
            return None
        if row["paused_ms"] is not None:
            return int(row["paused_ms"])
        moments = [row[name] for name in ("delayed_ms", "window_ms") if row[name] is not None]
        return min(moments, default=None)
