"""The nouns of the graph, as values: what is written, read, embedded and found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from neo4j_queue.database import Row
from neo4j_queue.graph.keys import Key, Place
from neo4j_queue.jobs import PRIORITY_DEFAULT, EnqueueResult, JobRequest
from neo4j_queue.text import VERSION_DIGITS, estimate_tokens, is_blank


class Change(StrEnum):
    """What a write did to an entity."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class EntityInput:
    """An entity to create or to merge into the one of that name; what is None is left as it is.

    `name` is the value of the key property, whatever that property is called: a text, or a whole number.
    """

    name: Key
    entity_type: str | None = None
    observations: Sequence[str] | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EntityResult:
    """What became of one written entity. `job` is None when its vector is fresh or enqueueing was deferred."""

    uid: str
    change: Change
    job: EnqueueResult | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    """A directed relation between two entities, by their keys."""

    source: Key
    type: str
    target: Key


@dataclass(frozen=True, slots=True)
class Entity:
    """A current entity. `embedded`: it has a vector; `pending`: a better one is on its way."""

    uid: str
    labels: tuple[str, ...]
    properties: Mapping[str, Any]
    embedded: bool
    pending: bool


@dataclass(frozen=True, slots=True)
class EntityText:
    """The text of an entity as it was read, with the source values it was made of (the fence of its vector).

    `uid`: the name of the entity; `key`: the same as it is stored, a text or a number.
    `fresh`: the entity carries the vector of exactly this text and of the graph's model.
    `embedded`: the entity carries a vector, of whichever text and model. `embedded_at`: when it was made, epoch ms (set
    only by `walk_entities`).
    `deleted`: the entity is soft-deleted.
    `known`: an entity may carry the vector of this text already (set only by `read_wanted`).
    `truncated`: only its beginning is embedded, as much as the model takes; the hash is that of the whole.
    `parts`: what is embedded in the place of `text`, where that is too long for one input.
    """

    uid: str
    text: str = field(repr=False)
    content_hash: str
    source: tuple[Any, ...] = field(repr=False)
    fresh: bool
    deleted: bool
    truncated: bool = False
    known: bool = False
    embedded: bool = False
    key: Place = ""
    parts: tuple[str, ...] = field(default=(), repr=False)
    embedded_at: int | None = None

    @property
    def version(self) -> str:
        """The content version: `version` of the job for this text."""
        return self.content_hash[:VERSION_DIGITS]

    @property
    def est_tokens(self) -> int:
        """The estimated size of the text in model tokens."""
        return estimate_tokens(self.text)

    @property
    def inputs(self) -> tuple[str, ...]:
        """What goes to the provider."""
        return self.parts or (self.text,)

    @property
    def needs_vector(self) -> bool:
        """True if the entity should get a vector of this text."""
        return not self.fresh and not self.deleted

    @property
    def blank(self) -> bool:
        """True if there is nothing to embed."""
        return is_blank(self.text)

    def request(self, model: str, *, priority: int = PRIORITY_DEFAULT) -> JobRequest:
        """The wish for a vector of this text; forced unless the entity carries that vector already."""
        return JobRequest(
            entity_uid=self.uid,
            model=model,
            version=self.version,
            priority=priority,
            est_tokens=self.est_tokens,
            force=not self.fresh,
        )


@dataclass(frozen=True, slots=True)
class VectorWrite:
    """A vector to write, with the source values of the text that was embedded (see `EntityText.source`).

    `truncated`: it is the vector of the text's beginning; the entity will say so in `embedding_truncated`.
    """

    uid: str
    source: Sequence[Any] = field(repr=False)
    content_hash: str
    vector: Sequence[float] = field(repr=False)
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the graph has a vector. `entities` = `fresh` + `stale` + `missing`, soft-deleted ones left out.

    fresh: a vector of the configured model, and no change through this library waits for a better one.
    stale: a vector of another model, or one whose text has changed since (outbox). A change by another program
    shows only after a sweep has compared the hashes. missing: no vector.
    """

    entities: int
    fresh: int
    stale: int
    missing: int


class Written(NamedTuple):
    """Entities that are written: their rows, and the texts of those that had to be judged, by row."""

    rows: list[Row]
    texts: dict[int, EntityText]


class Entries(NamedTuple):
    """Entities to write: the names of the entries in their order, and by name the key and what is to be set."""

    names: list[str]
    keys: dict[str, Key]
    properties: dict[str, dict[str, Any]]


class Asked(NamedTuple):
    """Entities that are written: what became of each, by name, and the vectors that the queue is to make."""

    changes: dict[str, Change]
    requests: list[JobRequest]
