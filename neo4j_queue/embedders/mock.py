"""Vectors made from a hash: equal texts get the same one, any others are not similar.

For tests, benchmarks and a first look. A vector of 256 dimensions takes about eight microseconds, one of 1,536 about
32: too little to count in a benchmark.
"""

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from struct import unpack

from neo4j_queue.embedders.base import Answer
from neo4j_queue.providers import Profile

MOCK_DIMENSIONS = 256
# A vector is put together from pieces of 32 numbers, out of 1,024 of one length: copying them is eight times faster
# than computing 256 numbers, and eight pieces already make 10^24 vectors. Narrow vectors are computed.
PIECE = 32
PIECES = 1_024
_NARROW = 8 * PIECE


class MockEmbedder:
    """Deterministic vectors of unit length, centred at zero: unrelated texts have a cosine near zero."""

    def __init__(
        self,
        dimensions: int,
        profile: Profile,
        *,
        latency_s: float = 0.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`latency_s`: the seconds that every request takes."""
        self.model = f"mock-{dimensions}"
        self.dimensions = dimensions
        self.profile = profile
        self._latency_s = latency_s
        self._sleep = sleep

    def warm_up(self) -> None:
        """Makes the table of pieces (about 20 ms)."""
        vector_of("", self.dimensions)

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Answer:  # noqa: ARG002 - of the interface
        """See `Embedder.embed`. Charges a token for every four bytes, about as providers do."""
        if self._latency_s > 0:
            self._sleep(self._latency_s)
        vectors = [vector_of(text, self.dimensions) for text in texts]
        return Answer(vectors, total_tokens=sum(-(-len(text.encode()) // 4) for text in texts))

    def reconnect(self) -> None:
        """There are no connections."""

    def close(self) -> None:
        """Does nothing: there is no connection."""


def vector_of(text: str, dimensions: int) -> list[float]:
    """The unit vector of a text, the same on every machine."""
    encoded = text.encode()
    if dimensions < _NARROW or dimensions % PIECE:
        return _computed(encoded, dimensions)
    pieces = _pieces(dimensions)
    count = dimensions // PIECE
    vector: list[float] = []
    for number in unpack(f">{count}H", hashlib.shake_128(encoded).digest(2 * count)):
        vector += pieces[number % PIECES]
    return vector


def _computed(encoded: bytes, dimensions: int) -> list[float]:
    digest = hashlib.shake_128(encoded).digest(2 * dimensions)
    # Odd numbers from -65,535 to 65,535: symmetric, and never zero.
    numbers = [((high << 8 | low) << 1) - 65_535 for high, low in zip(digest[::2], digest[1::2], strict=True)]
    scale = 1.0 / math.hypot(*numbers)
    return [number * scale for number in numbers]


@cache
def _pieces(dimensions: int) -> list[list[float]]:
    """The pieces for vectors of a width, scaled so that the whole vector has unit length."""
    random = Random(PIECES)  # any seed will do, as long as it is the same everywhere
    pieces = []
    for _ in range(PIECES):
        numbers = [random.gauss(0.0, 1.0) for _ in range(PIECE)]
        scale = math.sqrt(PIECE / dimensions) / math.hypot(*numbers)
        pieces.append([number * scale for number in numbers])
    return pieces
