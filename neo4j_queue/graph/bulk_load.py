"""Loading hundreds of thousands of entities or relations: page by page, each a transaction of its own.

The memory is that of two pages, however many there are. The queue hears of a page while the next one is written, and
no page is begun before it has heard of the one before the last: a queue that is slow holds the load up a little (see
`Outbox`), one that is down does not. What it did not hear of is in the outbox, and the sweep finds it.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from neo4j_queue.graph.entities import Change, EntityInput, EntityResult

# The round trips of a page of this size are a tenth of its time; a larger one would only hold its locks longer.
PAGE_ENTRIES = 1_000
# Of the texts of one page: a few times that is what the transaction takes of the server's memory.
PAGE_CHARACTERS = 4_000_000
# Of the first page of relations: the server plans by what is committed, and without any relation it plans badly.
FIRST_RELATIONS = 100

T = TypeVar("T")
W = TypeVar("W")

Write = Callable[[Sequence[T]], W]


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

    def plus(self, results: Sequence[EntityResult], deferred: int, seconds: float) -> "Loaded":
        """With a further page."""
        changes = [result.change for result in results]
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


def load(
    entities: Iterable[T],
    write: Write[T, W],
    hand_over: Callable[[W], tuple[Sequence[EntityResult], int]],
    progress: Progress | None,
) -> Loaded:
    """Writes all of them, page by page. `hand_over` runs on a thread of its own; it returns the results of a page, and
    how many of its entities the queue did not take.

    Raises what `write` raises, with a note of how many entries are written already.
    """
    began, done = time.monotonic(), Loaded()

    def settle(waiting: "Future[tuple[Sequence[EntityResult], int]]") -> Loaded:
        results, deferred = waiting.result()
        found = done.plus(results, deferred, time.monotonic() - began)
        if progress is not None:
            progress(found)
        return found

    with ThreadPoolExecutor(1, thread_name_prefix="hand-over") as pool:
        waiting: Future[tuple[Sequence[EntityResult], int]] | None = None
        try:
            for page in pages(entities):
                written = write(page)
                if waiting is not None:
                    done = settle(waiting)
                waiting = pool.submit(hand_over, written)
        except Exception as error:
            if waiting is not None:
                done = settle(waiting)
            error.add_note(
                f"{done.entries:,} entries before it are written; the same call again passes over them quickly"
            )
            raise
        if waiting is not None:
            done = settle(waiting)
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
    if isinstance(item, Mapping):
        return sum(map(_characters, item.values()))
    if isinstance(item, list | tuple):
        return sum(map(_characters, item))
    return 0
