"""Vectors that this process used lately, and the texts that one of its threads is asking for.

It saves requests, and no guarantee depends on it: the graph holds every vector that was stored, and the lease
transaction keeps two batches from the same text. A vector that is found here needs no read of the graph, and survives a
failed write to it. Two threads that want one text at one moment (searches, mostly) ask for it once.
"""

import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

# Model, dimensions, content hash of the whole text.
Key = tuple[str, int, str]

# The memory of an entry beside its numbers: a hash of 64 digits, a tuple, an array and their places in the dictionary.
ENTRY_BYTES = 400
MEGABYTE = 1 << 20


@dataclass(slots=True)
class _Asked:
    """A text that a thread is asking for. Once it is `done`, `vector` is its vector, or None if the request failed."""

    done: bool = False
    vector: Sequence[float] | None = None


class VectorCache:
    """Drops the least recently used vectors above `max_bytes`. With 0 nothing is kept, and no thread waits."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = threading.Lock()
        # Notified when texts are done. One condition for all of them: a thread rarely waits, and a condition per text
        # would cost more than all the rest.
        self._done = threading.Condition(self._lock)
        self._kept: OrderedDict[Key, array[float]] = OrderedDict()
        self._asked: dict[Key, _Asked] = {}

    @property
    def size_bytes(self) -> int:
        """The memory that is used, roughly."""
        return self._bytes

    @contextmanager
    def flight(self, keys: Iterable[Key]) -> Iterator["Flight"]:
        """Finds the vectors that are here. The rest is this thread's to get, except what another thread is getting.

        A text without a vector at the end of the block is given up: a thread that waits for it asks itself.
        """
        flight = self._begin(list(dict.fromkeys(keys)))
        try:
            yield flight
        finally:
            self._end(flight)

    def _begin(self, keys: Sequence[Key]) -> "Flight":
        flight = Flight(self)
        if not self._max_bytes:
            flight.ours.update(dict.fromkeys(keys))
            return flight
        with self._lock:
            for key in keys:
                if (vector := self._kept.get(key)) is not None:
                    self._kept.move_to_end(key)
                    flight.found[key] = vector.tolist()
                elif (asked := self._asked.get(key)) is not None:
                    flight.others[key] = asked
                else:
                    flight.ours[key] = self._asked[key] = _Asked()
        return flight

    def _end(self, flight: "Flight") -> None:
        with self._lock:
            for key, asked in flight.ours.items():
                if asked is not None and self._asked.get(key) is asked:
                    del self._asked[key]
                    asked.done = True
            self._done.notify_all()

    def keep(self, vectors: Mapping[Key, Sequence[float]]) -> None:
        """Keeps vectors, and gives them to the threads that wait for them."""
        if not self._max_bytes:
            return
        packed = {key: array("d", vector) for key, vector in vectors.items()}
        with self._lock:
            for key, vector in packed.items():
                self._forget(key)
                self._kept[key] = vector
                self._bytes += _size(vector)
                asked = self._asked.pop(key, None)
                if asked is not None:
                    asked.vector = vectors[key]
                    asked.done = True
            self._done.notify_all()
            while self._bytes > self._max_bytes:
                self._forget(next(iter(self._kept)))

    def wait(self, asked: Iterable[_Asked], timeout_s: float) -> None:
        """Returns as soon as all of these are done, or after `timeout_s` seconds."""
        waiting = list(asked)
        with self._done:
            self._done.wait_for(lambda: all(each.done for each in waiting), timeout_s)

    def _forget(self, key: Key) -> None:
        vector = self._kept.pop(key, None)
        if vector is not None:
            self._bytes -= _size(vector)


@dataclass(slots=True)
class Flight:
    """The texts that one thread wants: `found` at once, `ours` to get, `others` that another thread is getting."""

    cache: VectorCache
    found: dict[Key, list[float]] = field(default_factory=dict)
    ours: dict[Key, _Asked | None] = field(default_factory=dict)
    others: dict[Key, _Asked] = field(default_factory=dict)

    def land(self, vectors: Mapping[Key, Sequence[float]]) -> None:
        """Keeps the vectors that this thread got."""
        self.cache.keep(vectors)

    def wait(self, timeout_s: float) -> dict[Key, Sequence[float]]:
        """The vectors that other threads got within `timeout_s` seconds. Get `ours` first: they may wait for it."""
        self.cache.wait(self.others.values(), timeout_s)
        return {key: asked.vector for key, asked in self.others.items() if asked.vector is not None}


def _size(vector: "array[float]") -> int:
    return ENTRY_BYTES + len(vector) * vector.itemsize
