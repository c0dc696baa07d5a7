"""Vectors out of a hash: the same text always gives the same one, texts are similar only if they are equal.

For tests, benchmarks and a first look. Fast enough to be no part of what is measured: about eight
microseconds for 256 dimensions, 32 for 1,536.
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
# A vector is put together from pieces of 32 numbers out of 1,024, all of one length: copying them is eight
# times faster than computing 256 numbers, and eight pieces already make 10^24 vectors. Narrow vectors are
# computed.
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
        """`latency_s` seconds pass in every request, as a provider's would."""
        self.model = f"mock-{dimensions}"
        self.dimensions = dimensions
        self.profile = profile
        self._latency_s = latency_s
        self._sleep = sleep

    def warm_up(self) -> None:
        """Makes the table of pieces (some 20 ms)."""
        vector_of("", self.dimensions)

    def embed(self, texts: Sequence[str]) -> Answer:
        """See `Embedder.embed`; charges a token for every four bytes, as providers about do."""
        if self._latency_s > 0:
            self._sleep(self._latency_s)
        vectors = [vector_of(text, self.dimensions) for text in texts]
        return Answer(vectors, total_tokens=sum(-(-len(text.encode()) // 4) for text in texts))

    def close(self) -> None:
        """Nothing to close."""


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
    """The pieces for vectors of a width: every one so long that the whole has unit length."""
    random = Random(PIECES)  # a seed like any other, but the same everywhere
    pieces = []
    for _ in range(PIECES):
        numbers = [random.gauss(0.0, 1.0) for _ in range(PIECE)]
        scale = math.sqrt(PIECE / dimensions) / math.hypot(*numbers)
        pieces.append([number * scale for number in numbers])
    return pieces
