"""Where the vectors of a batch come from: this process's memory, another entity, and only then the provider.

The same text is not paid for twice. Within a batch it is asked for once; across batches and processes the lease
transaction sees to it that only one of them has a text in hand at a time: whoever comes later finds the vector.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from neo4j_queue.embedders.vector_cache import Flight, Key, VectorCache
from neo4j_queue.errors import Fault
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.pipeline.provider_call import Asked, ProviderCall

Vector = Sequence[float]
# Vectors that entities carry, by the content hash of their text.
Copies = Callable[[Sequence[str]], Mapping[str, Vector]]


@dataclass(slots=True)
class Saved:
    """Jobs that needed no input of their own, by why: their text was another job's of the batch, its vector was still
    in this process, or stood on another entity; or the entity's own vector was fresh."""

    in_batch: int = 0
    cached: int = 0
    other_entity: int = 0
    current: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.in_batch + self.cached + self.other_entity + self.current


@dataclass(frozen=True, slots=True)
class Sourced:
    """For each text its vector, or its fault, or neither (because of `rest`); `copied`: it was not asked for."""

    vectors: list[Vector | None]
    faults: list[Fault | None]
    copied: list[bool]
    rest: Fault | None = None


class VectorSources:
    """The sources of one pipeline. `wait_s` bounds the wait for a text that another thread of this process asks for:
    no request takes longer."""

    def __init__(
        self, cache: VectorCache, copies: Copies, *, model: str, dimensions: int, wait_s: float
    ) -> None:
        self._cache = cache
        self._copies = copies
        self._model = model
        self._dimensions = dimensions
        self._wait_s = wait_s

    def get(self, texts: Sequence[EntityText], asking: ProviderCall, saved: Saved) -> Sourced:
        """Vectors for `texts`, each different one got once; counts in `saved` what was not asked for.

        Raises what the driver raises when the graph is away; faults of the provider are in the answer.
        """
        first: dict[Key, EntityText] = {}
        for text in texts:
            first.setdefault(self._key(text.content_hash), text)
        with self._cache.flight(first) as flight:
            copied = self._copied(first, flight, saved)
            asked = self._ask([first[key] for key in flight.ours if key not in copied], asking)
            flight.land(asked.vectors)
            if flight.others:
                late = flight.wait(self._wait_s)
                saved.cached += len(late)
                copied |= late
                asked.add(self._ask([first[key] for key in flight.others if key not in late], asking))
        saved.in_batch += len(texts) - len(first)
        vectors = asked.vectors | copied
        keys = [self._key(text.content_hash) for text in texts]
        return Sourced(
            [vectors.get(key) for key in keys],
            [asked.faults.get(key) for key in keys],
            [key in copied for key in keys],
            asked.rest,
        )

    def _copied(self, texts: Mapping[Key, EntityText], flight: Flight, saved: Saved) -> dict[Key, Vector]:
        """What needs no request: found in this process, or carried by an entity."""
        saved.cached += len(flight.found)
        known = [texts[key].content_hash for key in flight.ours if texts[key].known]
        stored = {self._key(digest): vector for digest, vector in self._copies(known).items()}
        saved.other_entity += len(stored)
        flight.land(stored)
        return {**flight.found, **stored}

    def _ask(self, texts: Sequence[EntityText], asking: ProviderCall) -> "_Answers":
        if not texts:
            return _Answers({}, {}, None)
        answer: Asked = asking.ask([text.text for text in texts])
        keys = [self._key(text.content_hash) for text in texts]
        return _Answers(
            {key: vector for key, vector in zip(keys, answer.vectors, strict=True) if vector is not None},
            {key: fault for key, fault in zip(keys, answer.faults, strict=True) if fault is not None},
            answer.rest,
        )

    def _key(self, content_hash: str) -> Key:
        return (self._model, self._dimensions, content_hash)


@dataclass(slots=True)
class _Answers:
    """What the provider said, by text."""

    vectors: dict[Key, Vector]
    faults: dict[Key, Fault]
    rest: Fault | None

    def add(self, more: "_Answers") -> None:
        self.vectors |= more.vectors
        self.faults |= more.faults
        self.rest = self.rest or more.rest
