"""Loading hundreds of thousands of entities or relations: page by page, each a transaction of its own.

Three things go on at once: a page is read and checked, the one before it is written, and the queue hears of the one
before that. The memory is that of these three, however many there are. A queue that is slow holds the load up a little
(see `Outbox`), one that is down does not. What it did not hear of is in the outbox, and the sweep finds it.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from neo4j_queue.database import Row
from neo4j_queue.graph.entities import Asked, Change, EntityInput, EntityResult, Entries, Written
from neo4j_queue.in_time import started
from neo4j_queue.jobs import JobRequest

# The round trips of a page of this size are a tenth of its time; a larger one would only hold its locks longer.
PAGE_ENTRIES = 1_000
# Of the texts of one page: a few times that is what the transaction takes of the server's memory.
PAGE_CHARACTERS = 4_000_000
# Of the first page of relations: the server plans by what is committed, and without any relation it plans badly.
FIRST_RELATIONS = 100

T = TypeVar("T")

Entry = EntityInput | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load has done so far: `entries` read, what became of them, and in how many seconds.

    `entries` = `created` + `updated` + `unchanged`; an entity that comes twice counts twice. `queued`: their jobs are
    in the queue. `deferred`: the queue did not take them in time; beat's sweep of the outbox will.
    """

    entries: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    queued: int = 0
    deferred: int = 0
    seconds: float = 0.0

    @property
    def per_second(self) -> float:
        """Entries each second."""
        return self.entries / self.seconds if self.seconds else 0.0

    def plus(self, results: Sequence[EntityResult], asked: Sequence[JobRequest], seconds: float) -> "Loaded":
        """With a further page: the result of each entry, and what the queue was asked for."""
        changes = [result.change for result in results]
        without = {result.uid for result in results if result.job is None}
        deferred = len(without.intersection(request.entity_uid for request in asked))
        return replace(
            self,
            entries=self.entries + len(results),
            created=self.created + changes.count(Change.CREATED),
            updated=self.updated + changes.count(Change.UPDATED),
            unchanged=self.unchanged + changes.count(Change.UNCHANGED),
            queued=self.queued + sum(result.job is not None for result in results),
            deferred=self.deferred + deferred,
            seconds=seconds,
        )


Progress = Callable[[Loaded], None]


@dataclass(frozen=True, slots=True)
class Steps:
    """What is done with a page, one after the other.

    prepare: checks it; raises ValueError for a wrong entry. write: one transaction. ask: what the queue is to be asked
    for. hand_over: asks the queue, and never raises; the result of each entity, by name.
    """

    prepare: Callable[[Iterable[Entry]], Entries]
    write: Callable[[Entries], Written]
    ask: Callable[[Written], Asked]
    hand_over: Callable[[Asked], dict[str, EntityResult]]


def load(entities: Iterable[Entry], steps: Steps, progress: Progress | None) -> Loaded:
    """Writes all of them, page by page.

    Raises ValueError for a wrong entry, and what the database raises, with a note of how many entries are written
    already. What interrupts it does not wait for the page that is being written: it is there as a whole or not at all.
    """
    course = _Course(steps, progress)
    try:
        for page in pages(entities):
            course.next(steps.prepare(page))
        course.finish()
    except Exception as error:
        try:
            course.finish()
        finally:
            error.add_note(
                f"{course.done.entries:,} entries before it are written; "
                "the same call again passes over them quickly"
            )
        raise
    return course.done


class _Course:
    """The page that is being written, and the one before it that is being handed over."""

    def __init__(self, steps: Steps, progress: Progress | None) -> None:
        self.done = Loaded()
        self._steps = steps
        self._progress = progress
        self._began = time.monotonic()
        self._writing: tuple[Entries, Future[Written]] | None = None
        self._handing: tuple[Entries, Asked, Future[dict[str, EntityResult]]] | None = None

    def next(self, entries: Entries | None) -> None:
        """Begins to write a page when the one before it is written: two pages may have an entity in common."""
        writing, self._writing = self._writing, None
        asked: Asked | None = None
        try:
            written = writing[1].result() if writing is not None else None
            if entries is not None:
                self._writing = (entries, started(partial(self._steps.write, entries), "write"))
            asked = self._steps.ask(written) if written is not None else None
        finally:
            try:
                self._settle()
            finally:
                if writing is not None and asked is not None:
                    handing = started(partial(self._steps.hand_over, asked), "hand-over")
                    self._handing = (writing[0], asked, handing)

    def finish(self) -> None:
        """Waits for what goes on."""
        while self._writing is not None or self._handing is not None:
            self.next(None)

    def _settle(self) -> None:
        """Waits for the page that is being handed over."""
        if self._handing is None:
            return
        (entries, asked, handing), self._handing = self._handing, None
        results = handing.result()
        page = [results[name] for name in entries.names]
        self.done = self.done.plus(page, asked.requests, time.monotonic() - self._began)
        if self._progress is not None:
            self._progress(self.done)


class Relate(Protocol):
    """Writes a page of relations. `few`: the graph had few of them so far; returns whether it still has."""

    def __call__(self, ends: list[Row], *, few: bool) -> bool: ...


def load_relations(
    relations: Iterable[Any],
    prepare: Callable[[Iterable[Any]], list[Row]],
    relate: Relate,
    progress: Callable[[int], None] | None,
) -> int:
    """Writes all of them, page by page: one is read and checked while the one before it is written.

    Raises ValueError for a wrong one, and what `relate` raises; the pages before it are written.
    """
    done, few = 0, True
    writing: Future[bool] | None = None

    def written(page: Future[bool] | None, size: int) -> None:
        nonlocal done, few
        if page is not None:
            few = page.result()
            done += size
            if progress is not None:
                progress(done)

    size = 0
    try:
        for page in pages(relations, first=FIRST_RELATIONS):
            ends = prepare(page)
            written(writing, size)
            writing, size = started(partial(relate, ends, few=few), "write"), len(page)
        written(writing, size)
    except Exception:
        if writing is not None:
            writing.result()
        raise
    return done


def pages(
    items: Iterable[T],
    entries: int = PAGE_ENTRIES,
    characters: int = PAGE_CHARACTERS,
    *,
    first: int | None = None,
) -> Iterator[list[T]]:
    """The items in lists that are bounded by their number (that of the `first` one) and by the size of their texts."""
    page: list[T] = []
    size, most = 0, first or entries
    for item in items:
        page.append(item)
        size += _characters(item)
        if len(page) >= most or size >= characters:
            yield page
            page, size, most = [], 0, entries
    if page:
        yield page


def _characters(item: Any) -> int:
    """The size of the texts of an entry; other values hardly count."""
    if isinstance(item, str):
        return len(item)
    if isinstance(item, EntityInput):
        return _characters(item.observations) + _characters(item.properties)
    if isinstance(item, dict):
        return sum(map(_characters, item.values()))
    if isinstance(item, list | tuple):
        return sum(map(_characters, item))
    if isinstance(item, Mapping):
        return sum(map(_characters, item.values()))
    return 0
