"""How deep the queue was over the last day, and how fast vectors were made: a sample a minute, for people to see.

Each minute of the day has one node, which is written again a day later: so there are never more than `KEPT` of them,
and nothing has to be cleaned up. A control worker takes the sample in a lease task; none is taken while none runs, and
that is what the gap in the picture shows.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.jobs import Outcome
from neo4j_queue.queue import tally
from neo4j_queue.queue.ticks import SAMPLE_EVERY_MS as EVERY_MS
from neo4j_queue.queue.ticks import SAMPLED

if TYPE_CHECKING:
    from neo4j_queue.queue.embed_queue import EmbedQueue

DAY_MS = 86_400_000
KEPT = DAY_MS // EVERY_MS
# A rate over more than this is none: no control worker ran in between.
GAP_MS = 3 * EVERY_MS


@dataclass(frozen=True, slots=True)
class Sample:
    """The queue at one moment, `at` (epoch ms). `completed`: jobs that had ended well until then, which only grows."""

    at: int
    pending: int
    delayed: int
    processing: int
    failed: int
    completed: int

    @property
    def waiting(self) -> int:
        """Jobs that had not ended."""
        return self.pending + self.delayed + self.processing


def keep(queue: "EmbedQueue") -> bool:
    """Takes a sample, unless the last one is younger than a minute; True if it did. For any number of callers."""
    if not queue.ticks.take(SAMPLED, EVERY_MS):
        return False
    status = queue.status()
    counts = tally.total(tally.read(queue.database))
    sample = Sample(
        at=status.now,
        pending=status.pending,
        delayed=status.delayed,
        processing=status.processing,
        failed=status.failed,
        completed=round(sum(counts[f"completed:{outcome}"] for outcome in Outcome)),
    )
    queue.database.write(statement("history/keep"), name=_name(status.now), sample=asdict(sample))
    return True


def read(database: Database, now: int, hours: int = 24) -> list[Sample]:
    """The samples of the last `hours`, the oldest first."""
    since = now - min(hours * 3_600_000, DAY_MS)
    # A sample that lies ahead was taken before the clock was set back.
    found = database.read(statement("history/read"), since=since, until=now + EVERY_MS)
    return [Sample(**row.data()) for row in found]


def rates(samples: Sequence[Sample]) -> list[tuple[int, float]]:
    """Vectors per minute between each two samples, by the time of the second.

    Where counts began anew, or samples are missing, nothing is known.
    """
    found = []
    for before, after in pairwise(samples):
        passed_ms = after.at - before.at
        if 0 < passed_ms <= GAP_MS and after.completed >= before.completed:
            found.append((after.at, (after.completed - before.completed) * 60_000 / passed_ms))
    return found


def _name(at: int) -> str:
    """The node of this minute of the day."""
    return f"sample {at // EVERY_MS % KEPT:04}"
