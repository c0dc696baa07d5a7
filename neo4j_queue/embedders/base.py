"""What every embedder promises, and the check that no wrong vector gets past."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Protocol

from neo4j_queue.errors import InvalidAnswer, WrongWidth
from neo4j_queue.errors.rate_headers import RateHeaders
from neo4j_queue.providers import Profile

# The vector index computes in single precision: a norm outside of these squares to zero or to infinity there,
# and the index would skip the vector without an error.
NORM_MIN = 1e-18
NORM_MAX = 1e18


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Which model makes the vectors: `model` is the identity stored with jobs and entities."""

    provider: str
    model: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Answer:
    """One vector per text, in the order of the texts; `total_tokens` is what the provider charged."""

    vectors: list[list[float]]
    total_tokens: int | None = None
    request_id: str | None = None
    rate: RateHeaders | None = None


class Embedder(Protocol):
    """Turns texts into vectors, one provider request per call. Safe to use from threads and after a fork."""

    @property
    def model(self) -> str:
        """The identity of the model (`ModelSpec.model`)."""

    @property
    def dimensions(self) -> int:
        """The width of every vector."""

    @property
    def profile(self) -> Profile:
        """What one request may hold; the caller keeps to it."""

    def warm_up(self) -> None:
        """Does the slow first-time work (imports, loading a model) ahead of time; sends nothing."""

    def embed(self, texts: Sequence[str]) -> Answer:
        """The vectors of some texts, in their order: every one finite, of full length, and not zero.

        Sends one request and never repeats it. Raises what went wrong as it came (`errors.classify` tells
        what it means), `InvalidAnswer` for an answer that cannot be used, `WrongWidth` when the settings are
        to blame for that. No text may be blank.
        """

    def close(self) -> None:
        """Closes connections of this process; a later `embed` would open them again."""


def validated(pairs: Iterable[tuple[object, object]], count: int, dimensions: int) -> list[list[float]]:
    """The vectors of an answer, paired with `count` texts by index. Raises `InvalidAnswer`.

    Every index from 0 to `count` - 1 must come exactly once, in any order: providers answer short, shuffled
    and doubled, and a vector stored with the wrong text is never found out. One vector of another width is such a
    glitch too; when all are good but for their common width, that is `WrongWidth`.
    """
    vectors: dict[int, object] = {}
    for index, vector in pairs:
        if type(index) is not int or not 0 <= index < count:
            given = str(index) if type(index) is int else f"of type {type(index).__name__}"
            raise InvalidAnswer(f"index {given} in the answer for {count} texts")
        if index in vectors:
            raise InvalidAnswer(f"index {index} comes twice in the answer for {count} texts")
        vectors[index] = vector
    if len(vectors) != count:
        raise InvalidAnswer(f"{len(vectors)} vectors in the answer for {count} texts")
    width = _common_width(vectors.values()) or dimensions
    checked = [_checked(vectors[index], width, index) for index in range(count)]
    if width != dimensions:
        raise WrongWidth(width, dimensions)
    return checked


def is_usable(vector: object, dimensions: int) -> bool:
    """Can the vector index hold this? What it cannot is stored without a word, and never found."""
    try:
        _checked(vector, dimensions, 0)
    except InvalidAnswer:
        return False
    return True


def _common_width(vectors: Iterable[object]) -> int | None:
    """The width that all of them have; None when it is not one, or when something else is among them."""
    widths = {len(vector) if isinstance(vector, list) else None for vector in vectors}
    return widths.pop() if len(widths) == 1 else None


def _checked(vector: object, dimensions: int, index: int) -> list[float]:
    if not isinstance(vector, list):
        raise InvalidAnswer(f"vector {index} is of type {type(vector).__name__}, not a list of numbers")
    if len(vector) != dimensions:
        raise InvalidAnswer(f"vector {index} has {len(vector)} dimensions, {dimensions} are configured")
    kinds = set(map(type, vector))
    if not kinds <= {float, int}:
        raise InvalidAnswer(f"vector {index} holds {', '.join(sorted(kind.__name__ for kind in kinds))}")
    try:
        numbers: list[float] = [float(number) for number in vector] if int in kinds else vector
    except OverflowError:
        raise InvalidAnswer(f"vector {index} holds a whole number beyond any float") from None
    # One sum finds NaN, infinity, overflow and zero; a check of each number costs five times as much.
    norm = math.sqrt(sum(map(mul, numbers, numbers)))
    if not NORM_MIN < norm < NORM_MAX:
        raise InvalidAnswer(f"vector {index} has the norm {norm}")
    return numbers
