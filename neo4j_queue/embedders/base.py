"""The interface of an embedder, and the check of the vectors in an answer."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Protocol

from neo4j_queue.errors import DialectError, InvalidAnswer, WrongWidth
from neo4j_queue.errors.rate_headers import RateHeaders
from neo4j_queue.providers import Profile

# The vector index computes in single precision: the square of a norm outside of these is zero or infinity there, and
# the index skips such a vector without an error.
NORM_MIN = 1e-18
NORM_MAX = 1e18
# An index that is written as text; no request holds more texts than fit into nine digits.
INDEX_TEXT = re.compile(r"[0-9]{1,9}")
ONE_BY_ONE = "set EMBED_BATCH_SIZE=1, so that each answer holds one vector"


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The model that makes the vectors. `model` is the identity that jobs and entities carry."""

    provider: str
    model: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Answer:
    """One vector per text, in the order of the texts. `total_tokens` are those that the provider charged.

    `requests` is 2 or more if the server had to be asked again without a field that it refused.
    """

    vectors: list[list[float]]
    total_tokens: int | None = None
    requests: int = 1
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
        """The limits of one request; the caller keeps to them."""

    def warm_up(self) -> None:
        """Does the slow work of the first request (imports, loading a model) ahead of it; sends nothing."""

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Answer:
        """The vectors of some texts, in their order: each finite, of full width, and not zero.

        `query`: the text is the query of a search, which some models embed in another way than texts that are stored.
        Sends one request and never repeats it. One exception: a server that refuses a field by its name is asked again
        without it, once per field and process. Raises the client's own error (`errors.classify` says what it means),
        `InvalidAnswer` for an answer without usable vectors, `WrongWidth` if the settings are to blame for that. No
        text may be blank.
        """

    def reconnect(self) -> None:
        """Sends the next requests on new connections; those under way keep theirs."""

    def close(self) -> None:
        """Closes the connections of this process; a later `embed` opens them again."""


def validated(pairs: Iterable[tuple[object, object]], count: int, dimensions: int) -> list[list[float]]:
    """The vectors of an answer, paired with `count` texts by index. Raises `InvalidAnswer`.

    Every index from 0 to `count` - 1 must come exactly once, in any order. Providers send short, shuffled and doubled
    answers, and a vector that is stored with the wrong text is never noticed. One index may be missing (None) if the
    others leave one place alone: some servers leave out zeros. An answer without any index proves no order, so it is a
    `DialectError` for more than one text. One vector of another width makes the answer invalid too; if all vectors are
    good and share a wrong width, that is `WrongWidth`.
    """
    given = list(pairs)
    if len(given) != count:
        raise InvalidAnswer(f"{len(given)} vectors in the answer for {count} texts")
    vectors = _by_index([(_whole(index), vector) for index, vector in given], count)
    strangers = {type(vector).__name__ for vector in vectors.values() if vector is not None}
    if strangers and "list" not in strangers:
        raise DialectError(f"the vectors are of type {', '.join(sorted(strangers))}, not lists of numbers")
    width = _common_width(vectors.values()) or dimensions
    checked = [_checked(vectors[index], width, index) for index in range(count)]
    if width != dimensions:
        raise WrongWidth(width, dimensions)
    return checked


def _by_index(given: Sequence[tuple[object, object]], count: int) -> dict[int, object]:
    """The vectors by their places; a single vector without an index gets the place that is left."""
    vectors: dict[int, object] = {}
    without: list[object] = []
    for index, vector in given:
        if index is None:
            without.append(vector)
        elif type(index) is not int or not 0 <= index < count:
            shown = str(index) if type(index) is int else f"of type {type(index).__name__}"
            raise InvalidAnswer(f"index {shown} in the answer for {count} texts")
        elif index in vectors:
            if {each for each, _ in given} == {index}:
                raise DialectError(
                    f"every vector has the index {index} in the answer for {count} texts", ONE_BY_ONE
                )
            raise InvalidAnswer(f"index {index} comes twice in the answer for {count} texts")
        else:
            vectors[index] = vector
    if len(without) == count > 1:
        raise DialectError(f"no vector has an index in the answer for {count} texts", ONE_BY_ONE)
    if len(without) > 1:
        raise InvalidAnswer(f"{len(without)} vectors without an index in the answer for {count} texts")
    places = [index for index in range(count) if index not in vectors]
    return {**vectors, **dict(zip(places, without, strict=True))}


def _whole(index: object) -> object:
    """An index that came as `1.0` or as `"1"` as a number; everything else as it is."""
    if isinstance(index, float) and index.is_integer():
        return int(index)
    if isinstance(index, str) and INDEX_TEXT.fullmatch(index):
        return int(index)
    return index


def is_usable(vector: object, dimensions: int) -> bool:
    """True if the vector index can hold the vector. Any other is stored without an error, and never found."""
    try:
        _checked(vector, dimensions, 0)
    except InvalidAnswer:
        return False
    return True


def _common_width(vectors: Iterable[object]) -> int | None:
    """The width of all of them; None if they differ, or if one is no list."""
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
