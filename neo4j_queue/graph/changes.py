"""Entities in the order in which they were changed, by a timestamp that other programs keep on them.

The property may hold any kind of time. Cypher compares only values of one kind, so each kind is looked at by itself;
one that no entity has costs a look into the index that finds nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

import neo4j.time

from neo4j_queue.cypher import statement
from neo4j_queue.database import Bulk
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.graph.vectors import EntityVectors
from neo4j_queue.times import epoch_ms

# A number below this is taken for seconds (until the year 5138), from it on for milliseconds (since March 1973).
SECONDS_BELOW = 100_000_000_000
DAY_MS = 86_400_000
# The first and the last moment that the driver's times can hold. An earlier time is no change of any graph.
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_214_400_000
LARGEST_NUMBER = 2**63 - 1
# Five minutes: ten times what clocks on one network differ by, and what a program takes from its time to its write.
OVERLAP_MS = 300_000
# Local times and dates do not say where they were taken; the farthest zone is UTC+14.
ZONE_AHEAD_MS = 14 * 3_600_000
# What `future` and `text` are called beside the kinds of time.
FUTURE, TEXT = "future", "text"
# No character of a text comes after it.
AFTER_ALL_TEXTS = "\U0010ffff"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Kind(StrEnum):
    """A kind of time that a property can hold. Moments are epoch milliseconds; those of local kinds as in UTC."""

    DATETIME = "datetime"
    LOCAL = "local_datetime"
    DATE = "date"
    SECONDS = "epoch_seconds"
    MILLISECONDS = "epoch_milliseconds"

    @property
    def zoned(self) -> bool:
        """True if a value names a moment. False if that depends on where the clock of its writer hangs."""
        return self not in (Kind.LOCAL, Kind.DATE)

    @property
    def grain_ms(self) -> int:
        """What is told apart: values that differ by less are one moment."""
        return {Kind.SECONDS: 1_000, Kind.DATE: DAY_MS}.get(self, 1)

    def time_at(self, ms: int) -> Any:
        """The value of this kind at a moment, or the last one before it."""
        if self is Kind.SECONDS:
            return min(ms // 1_000, SECONDS_BELOW)
        if self is Kind.MILLISECONDS:
            return LARGEST_NUMBER if ms >= LAST_MS else max(ms, SECONDS_BELOW)
        moment = EPOCH + timedelta(milliseconds=min(max(ms, FIRST_MS), LAST_MS))
        if self is Kind.DATE:
            return date(moment.year, moment.month, moment.day)
        return moment if self is Kind.DATETIME else moment.replace(tzinfo=None)

    def moment(self, found: int) -> int:
        """The moment behind what a statement answers."""
        return found * 1_000 if self is Kind.SECONDS else found


def moment_of(value: Any) -> int | None:
    """The moment (epoch ms) that a value of any kind names, local ones as in UTC; None if it names none."""
    match value:
        case bool():
            return None
        case int():
            return value * 1_000 if 0 <= value < SECONDS_BELOW else epoch_ms(value)
        case neo4j.time.Date():
            value = neo4j.time.DateTime(value.year, value.month, value.day)
        case neo4j.time.DateTime():
            pass
        case _:
            return None
    try:
        native: datetime = value.to_native()
    except ValueError:  # a year that Python has not
        return None
    return round((native if native.tzinfo else native.replace(tzinfo=UTC)).timestamp() * 1_000)


def limits(now: int) -> dict[Kind, int]:
    """Up to which moment times of each kind are read: what comes after it is in the future, wherever it was taken."""
    return {kind: now + OVERLAP_MS + (0 if kind.zoned else ZONE_AHEAD_MS) for kind in Kind}


class Span(NamedTuple):
    """Moments of one kind: from `least` on, up to `most` and without it."""

    kind: Kind
    least: int
    most: int

    def bounds(self) -> dict[str, Any]:
        """The two ends as a statement compares them."""
        most = self.most + self.kind.grain_ms - 1
        return {"least": self.kind.time_at(self.least), "most": self.kind.time_at(most)}


class OpenSince(NamedTuple):
    """The server's time, and since when its oldest transaction is open (epoch ms)."""

    now: int
    since: int


@dataclass(frozen=True, slots=True)
class Changes:
    """The entities of a graph by the property `timestamp`. Everything but `open_since` needs the index on it."""

    graph: EntityVectors
    timestamp: str

    def open_since(self) -> OpenSince:
        """Since when a transaction may be open whose changes nobody else can see yet."""
        database = self.graph.database
        (store,) = database.read(statement("server/store"))
        (row,) = database.read(statement("server/oldest_open"), database=store["name"])
        now = row["now"]
        return OpenSince(now, now if row["since"] is None else min(row["since"], now))

    def tops(self, until: Mapping[Kind, int]) -> dict[Kind, int]:
        """The newest moment of each kind before the one that is given for it; no entry for a kind that has none."""
        spans = [Span(kind, FIRST_MS, most) for kind, most in until.items()]
        found = self._ask("changed_tops", [(span.kind, span) for span in spans])
        return {Kind(row["name"]): Kind(row["name"]).moment(row["top"]) for row in found}

    def unread(self, after: Mapping[Kind, int]) -> list[str]:
        """What stands in the property and is not read: `text`, and `future` for moments after those that are given."""
        spans = [Span(kind, least, LAST_MS) for kind, least in after.items()]
        found = self._ask("changed_tops", [(FUTURE, span) for span in spans], texts=True)
        return sorted({row["name"] for row in found})

    def counts(self, until: Mapping[Kind, int]) -> dict[str, int]:
        """How many entities have a time of each kind, one in the `future` (after `until`), or a `text`.

        Reads the whole index: a third of a second for a million entities.
        """
        spans: list[tuple[str, Span]] = [(kind, Span(kind, FIRST_MS, most)) for kind, most in until.items()]
        spans += [(FUTURE, Span(kind, least, LAST_MS)) for kind, least in until.items()]
        counts: dict[str, int] = {}
        for row in self._ask("changed_counts", spans, texts=True):
            counts[row["name"]] = counts.get(row["name"], 0) + row["entities"]
        return {name: count for name, count in counts.items() if count}

    def nodes(self, span: Span, limit: int) -> list[tuple[int, int]]:
        """The first nodes of a span, each with its moment, in the order of the moments."""
        found = self._packed("changed_nodes", **span.bounds(), limit=limit)
        return [(row["node"], span.kind.moment(row["at"])) for row in found]

    def together(self, span: Span, beyond: int, limit: int) -> list[int]:
        """The nodes of a span whose number is greater than `beyond`, in the order of their numbers."""
        found = self._packed("changed_together", **span.bounds(), beyond=beyond, limit=limit)
        return [row["node"] for row in found]

    def texts(self, nodes: Sequence[int]) -> list[EntityText]:
        """The texts of those nodes that are current entities."""
        return self.graph.texts_of_nodes(nodes)

    def _ask(self, name: str, spans: Iterable[tuple[str, Span]], *, texts: bool = False) -> list[Any]:
        bounds = [{"name": str(called), **span.bounds()} for called, span in spans]
        if texts:
            bounds.append({"name": TEXT, "least": "", "most": AFTER_ALL_TEXTS})
        return self.graph.database.read(self._statement(name), bounds=Bulk(bounds))

    def _packed(self, name: str, **parameters: Any) -> list[dict[str, Any]]:
        return self.graph.database.read_packed(self._statement(name), **parameters)

    def _statement(self, name: str) -> str:
        return statement(f"graph/{name}", label=self.graph.label, changed=self.timestamp)
