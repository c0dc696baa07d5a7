"""The sweep of what changed: it looks at entities whose timestamp moved since the last look, and at no other.

A change is seen when its transaction commits, but carries the time of its statement, or at which a program thought of
it, by that program's clock. So a look begins before the moment of the last one:

- by as long as the oldest transaction was open at the last look, as far as the server lets this user see it and at most
  a day;
- by the lag of the newest time that is there: how old it was when it was first seen. So writers may all be behind;
- by an overlap, for clocks that differ and for times that a program takes some minutes before it writes. Local times
  and dates do not say where they were taken: their overlap is all zones.

Nothing that lies further ahead than the overlap is read before its time has come: it must not hide the others.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from neo4j_queue.graph.changes import (
    DAY_MS,
    FIRST_MS,
    OVERLAP_MS,
    Changes,
    Kind,
    Span,
    limits,
)
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.jobs import PRIORITY_BACKFILL, PRIORITY_DEFAULT
from neo4j_queue.settings.readers import CHANGED

# From UTC-12 to UTC+14, and the hour that clocks are set back in autumn.
ZONES_MS = 27 * 3_600_000
# A transaction that is open longer was forgotten: going back to it at each look would read everything since.
HELD_MS = DAY_MS
# Nodes of one timestamp whose numbers are read at once: what a turn gets done.
TOGETHER = 10_000

_told: set[tuple[str, str]] = set()

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Changed:
    """What a sweep of changes looks at: entities by the property `timestamp`."""

    timestamp: str

    def __str__(self) -> str:
        return CHANGED + self.timestamp

    @property
    def priority(self) -> int:
        """Of its jobs: people and programs wait for what they just changed."""
        return PRIORITY_DEFAULT


@dataclass(frozen=True, slots=True)
class Marks:
    """What a look leaves for the next one. `since`: what was not seen by then has begun after it (epoch ms, server).

    `newest`: of each kind the newest moment that was there, and its lag: how old it was when it was first seen.
    """

    since: int
    newest: Mapping[Kind, tuple[int, int]]

    def least(self, kind: Kind) -> int:
        """From which moment on there may be changes of this kind that were not seen."""
        if kind not in self.newest:
            return FIRST_MS
        _, lag = self.newest[kind]
        return self.since - lag - (OVERLAP_MS if kind.zoned else OVERLAP_MS + ZONES_MS)

    def dumps(self) -> str:
        """As text, for the jobs database."""
        return json.dumps({"since": self.since, "newest": self.newest})

    @classmethod
    def loads(cls, text: str) -> "Marks":
        """Of what `dumps` gave."""
        stored = json.loads(text)
        return cls(stored["since"], {Kind(kind): (top, lag) for kind, (top, lag) in stored["newest"].items()})


@dataclass(frozen=True, slots=True)
class Position:
    """Where a sweep of changes stands: spans to be looked at, the first one under way.

    `beyond`: of the first span, nodes up to this number are done; they have one moment. `key`: the first look of all
    compares every entity, in the order of the keys, and has come to this one (None: at the begin). `marks` are for the
    next sweep.
    """

    marks: Marks
    spans: tuple[Span, ...] = ()
    beyond: int = -1
    first: bool = False
    key: Any = None

    @property
    def priority(self) -> int:
        """Of the jobs for what is found here. The first look is a backfill."""
        return PRIORITY_BACKFILL if self.first else PRIORITY_DEFAULT

    def dumps(self) -> str:
        """As text, for the jobs database."""
        stored = {"marks": self.marks.dumps(), "spans": self.spans, "beyond": self.beyond}
        return json.dumps({**stored, "first": self.first, "key": self.key})

    @classmethod
    def loads(cls, text: str) -> "Position":
        """Of what `dumps` gave."""
        stored = json.loads(text)
        spans = tuple(Span(Kind(kind), least, most) for kind, least, most in stored["spans"])
        return cls(Marks.loads(stored["marks"]), spans, stored["beyond"], stored["first"], stored["key"])


@dataclass(frozen=True, slots=True)
class Step:
    """Texts found on the way, and where it goes on; None: at its end."""

    texts: list[EntityText]
    position: Position | None = field(repr=False)


def begin(changes: Changes, before: Marks | None) -> Position:
    """Where a new look begins, by what the last one has left (`before`); None: there was none under these
    settings."""
    opened = changes.open_since()
    since = max(opened.since, opened.now - HELD_MS)
    if since > opened.since:
        log.warning("transaction_open_too_long", open_since=opened.since, property=changes.timestamp)
    until = limits(opened.now)
    tops = changes.tops(until)
    _tell_unread(changes, until)
    known = {} if before is None else before.newest
    newest = {
        kind: known[kind] if kind in known and known[kind][0] == top else (top, max(0, opened.now - top))
        for kind, top in tops.items()
    }
    marks = Marks(since, newest)
    if before is None:
        return Position(marks, first=True)
    spans = [Span(kind, before.least(kind), top + kind.grain_ms) for kind, top in tops.items()]
    return Position(marks, tuple(span for span in spans if span.least < span.most))


def walk(changes: Changes, position: Position, page: int) -> Iterator[Step]:
    """The way from a position to the end, so many entities at a time."""
    while True:
        steps = _first_look(changes, position, page) if position.first else _next(changes, position, page)
        for step in steps:
            yield step
            if step.position is None:
                return
            position = step.position


def _first_look(changes: Changes, position: Position, page: int) -> Iterator[Step]:
    found = changes.graph.walk_entities(position.key, page)
    yield Step(found.texts, None if found.last is None else replace(position, key=found.last))


def _next(changes: Changes, position: Position, page: int) -> Iterator[Step]:
    """The next steps: as many as one look into the index is good for."""
    if not position.spans:
        yield Step([], None)
        return
    span, *later = position.spans
    rest = tuple(later)
    found = changes.nodes(span, page)
    first, last = (found[0][1], found[-1][1]) if found else (0, 0)
    if len(found) < page:
        yield Step(changes.texts([node for node, _ in found]), _at(position, rest))
    elif first == last:
        # The moment may be another one than at the turn before, whose nodes have changed meanwhile.
        beyond = position.beyond if first == span.least else -1
        yield from _of_one_moment(
            changes, replace(position, spans=(span._replace(least=first), *rest), beyond=beyond), page
        )
    else:
        # There may be more nodes of the last moment than were read.
        nodes = [node for node, at in found if at < last]
        yield Step(changes.texts(nodes), _at(position, (span._replace(least=last), *rest)))


def _of_one_moment(changes: Changes, position: Position, page: int) -> Iterator[Step]:
    """Nodes of one moment, by their numbers: in pages, none is left out and none is read again."""
    span, *later = position.spans
    moment = span._replace(most=span.least + span.kind.grain_ms)
    after = span._replace(least=moment.most)
    rest = _at(position, (after, *later) if after.least < after.most else tuple(later))
    nodes = changes.together(moment, position.beyond, TOGETHER)
    pages = [nodes[at : at + page] for at in range(0, len(nodes), page)]
    for n, each in enumerate(pages, start=1):
        at_end = n == len(pages) and len(nodes) < TOGETHER
        yield Step(changes.texts(each), rest if at_end else replace(position, beyond=each[-1]))
    if not pages:
        yield Step([], rest)


def _at(position: Position, spans: tuple[Span, ...]) -> Position | None:
    return replace(position, spans=spans, beyond=-1) if spans else None


def _tell_unread(changes: Changes, until: Mapping[Kind, int]) -> None:
    """Says once in this process what stands in the property that no look goes by."""
    for what in changes.unread(until):
        if (changes.timestamp, what) not in _told:
            _told.add((changes.timestamp, what))
            log.warning("timestamps_not_read", property=changes.timestamp, holds=what)
