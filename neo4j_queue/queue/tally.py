"""What all workers have done, in counts that only grow: for metrics, which any one process can show.

The counts stand on a few nodes of the jobs database. They are added up in the transaction that does what they count, so
they are neither lost nor counted twice, whatever dies. Nothing is kept for a job or a batch: a histogram is a count for
each of its buckets.
"""

import math
import zlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from neo4j import ManagedTransaction

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database, rows
from neo4j_queue.errors import Fault
from neo4j_queue.errors.classify import FaultKind

# Settlements add to one of so many nodes, by their token: half a dozen at once seldom wait for one another.
SHARDS = 8
# Counts of what is no settlement.
EVENTS = "counts"


class Counts(dict[str, float]):
    """Counts by name, 0 of what was not counted: whole numbers, and seconds or dollars."""

    def __missing__(self, name: str) -> float:
        return 0

    def add(self, more: Mapping[str, float]) -> None:
        """Adds other counts."""
        for name, by in more.items():
            self[name] += by


@dataclass(frozen=True, slots=True)
class Histogram:
    """Times in seconds, counted by buckets. `bounds`: the upper ones, growing; what is above all of them is counted
    too."""

    name: str
    bounds: tuple[float, ...]

    @property
    def buckets(self) -> tuple[str, ...]:
        """The names of their counts, in order."""
        return tuple(f"{self.name}:{bound:g}" for bound in (*self.bounds, math.inf))

    @property
    def sum_name(self) -> str:
        """The name of the count of all seconds."""
        return f"{self.name}_sum"

    def count(self, counts: Counts, seconds: float) -> None:
        """Adds one observation."""
        counts[self.buckets[bisect_left(self.bounds, seconds)]] += 1
        counts[self.sum_name] += seconds


# A batch is a request and four transactions: a tenth of a second at best, its time limits at worst.
BATCH_S = Histogram("batch_s", (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300))
# Up to the longest deadline that is usual for a request.
REQUEST_S = Histogram("request_s", (0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60))
# An edit has its vector within seconds; a backfill waits for hours or days.
WAITED_S = Histogram("waited_s", (0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400, 604_800))

# The statuses that a request may be counted under: any other stands for its hundred, so that no provider can make
# the counts grow.
STATUSES = frozenset(
    (200, 400, 401, 402, 403, 404, 408, 409, 413, 422, 425, 429, 500, 502, 503, 504, 524, 529)
)
INTERRUPTED, UNCONFIRMED = "interrupted", "unconfirmed"


@dataclass(frozen=True, slots=True)
class Measured:
    """What a worker measured of one batch. `requests`: status and seconds of each; `saved`: jobs without a request, by
    why."""

    batch_s: float
    requests: Sequence[tuple[str, float]] = ()
    saved: Mapping[str, int] = field(default_factory=dict)

    def count(self, counts: Counts) -> None:
        """Adds the batch."""
        counts["batches"] += 1
        BATCH_S.count(counts, self.batch_s)
        for status, seconds in self.requests:
            counts[f"requests:{status}"] += 1
            REQUEST_S.count(counts, seconds)
        counts.add({f"saved:{why}": jobs for why, jobs in self.saved.items()})


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of one provider and model; None: of what concerns none."""

    provider: str | None
    model: str | None
    counts: Mapping[str, float]


def status_of(fault: Fault | None) -> str:
    """What a request is counted under: its status, or what came in the place of one."""
    if fault is None:
        return "200"
    # Below 300 it is no refusal, but an answer without usable vectors.
    if fault.status is not None and fault.status >= 300:
        return str(fault.status) if fault.status in STATUSES else f"{fault.status // 100}xx"
    if "Timeout" in fault.error_type:
        return "timeout"
    if fault.status is not None or fault.kind in (FaultKind.ANSWER, FaultKind.DIALECT):
        return "unusable"
    return "connection" if fault.kind is FaultKind.OUTAGE else "other"


def spending(tokens: int, price: object) -> Counts:
    """Model tokens, and what they cost at this price per million; None = not known."""
    if isinstance(price, int | float):
        return Counts(tokens=tokens, dollars=tokens * price / 1_000_000)
    return Counts(tokens=tokens, unpriced_tokens=tokens)


def node_of(token: str, tariff: Mapping[str, object]) -> str:
    """The node that the settlement of a lease adds to: one of those of its provider and model."""
    shard = zlib.crc32(token.encode()) % SHARDS
    return f"{EVENTS} {tariff.get('provider')} {tariff.get('model')} {shard}"


def listed(counts: Mapping[str, float]) -> list[dict[str, Any]]:
    """Counts as a parameter of a statement."""
    return [{"name": name, "by": by} for name, by in counts.items() if by]


def add(tx: ManagedTransaction, counts: Mapping[str, float]) -> None:
    """Adds counts of what concerns no provider, inside the transaction that they are about."""
    if any(counts.values()):
        rows(tx, statement("counts/add"), node=EVENTS, counts=listed(counts))


def read(database: Database) -> list[Counted]:
    """All counts, added up by provider and model."""
    found: dict[tuple[str | None, str | None], Counts] = {}
    for row in database.read(statement("counts/read"), prefix=EVENTS):
        values = {name: value for name, value in row["counts"].items() if isinstance(value, int | float)}
        of_model = found.setdefault((row["provider"], row["model"]), Counts())
        of_model.add({name: value for name, value in values.items() if not isinstance(value, bool)})
    return [Counted(provider, model, counts) for (provider, model), counts in found.items()]


def total(all_counts: Sequence[Counted]) -> Counts:
    """The counts of all providers and models together."""
    found = Counts()
    for each in all_counts:
        found.add(each.counts)
    return found
