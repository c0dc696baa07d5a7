"""EntityGraph: what applications write and read. Entities are written in milliseconds, vectors appear by themselves."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from typing import Any, Self

from neo4j import ManagedTransaction
from neo4j.exceptions import ConstraintError

from neo4j_queue.database import Database, Row
from neo4j_queue.embedders import describe
from neo4j_queue.errors import KeyTaken
from neo4j_queue.graph.accepted import (
    check_properties,
    checked_key,
    checked_name,
    checked_observations,
)
from neo4j_queue.graph.answer import Hit, SearchAnswer
from neo4j_queue.graph.booking import BookQuery
from neo4j_queue.graph.bulk_load import Loaded, Progress, Steps, load, load_relations
from neo4j_queue.graph.entities import (
    Change,
    Coverage,
    Entity,
    EntityInput,
    EntityResult,
    EntityText,
    Relation,
    VectorWrite,
)
from neo4j_queue.graph.entity_writes import EntityWrites
from neo4j_queue.graph.keys import keys_of
from neo4j_queue.graph.outbox import WAIT_S, Deferred, Enqueue, Outbox, warn
from neo4j_queue.graph.query_embedder import EmbedQuery, QueryEmbedder
from neo4j_queue.graph.search import Search
from neo4j_queue.graph.search_indexes import WantedIndexes
from neo4j_queue.graph.search_request import SearchMode, SearchRequest
from neo4j_queue.graph.vectors import PAGE
from neo4j_queue.jobs import PRIORITY_BACKFILL, PRIORITY_DEFAULT
from neo4j_queue.names import DELETED, VECTOR, DeletedProperty, VectorProperty, text_index_name
from neo4j_queue.settings import Settings
from neo4j_queue.text import TextRecipe

__all__ = [
    "Change",
    "Coverage",
    "Entity",
    "EntityGraph",
    "EntityInput",
    "EntityResult",
    "EntityText",
    "Hit",
    "Loaded",
    "Relation",
    "SearchAnswer",
    "VectorWrite",
]


class EntityGraph(EntityWrites):
    """Entities of one label, found by one key property.

    A write marks entities without a fresh vector `:EmbedPending` in its own transaction and calls `enqueue` after the
    commit. It succeeds whatever the queue does: it waits for it at most `enqueue_wait_s` seconds, and never for a
    provider. Entities that could not be handed over are told to `on_deferred`, by default a warning in the log.
    """

    def __init__(
        self,
        database: Database,
        recipe: TextRecipe,
        model: str,
        *,
        dimensions: int,
        label: str = "Entity",
        key: str = "name",
        vector: VectorProperty = VECTOR,
        deleted: DeletedProperty = DELETED,
        vector_index: str = "entity_embeddings",
        enqueue: Enqueue | None = None,
        enqueue_wait_s: float = WAIT_S,
        on_deferred: Deferred = warn,
        embed: EmbedQuery | None = None,
        closing: Iterable[Callable[[], None]] = (),
    ) -> None:
        super().__init__(
            database,
            recipe,
            model,
            Outbox(enqueue, wait_s=enqueue_wait_s, deferred=on_deferred),
            dimensions=dimensions,
            label=label,
            key=key,
            vector=vector,
            deleted=deleted,
        )
        self.vector_index = vector_index
        self._closing = tuple(closing)
        wanted = WantedIndexes(
            label, vector.name, dimensions, vector_index, text_index_name(vector_index), recipe.properties
        )
        self._search = Search(
            database, recipe, model, wanted, key=key, vector=vector, deleted=deleted, embed=embed
        )

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        enqueue: Enqueue | None = None,
        *,
        database: Database | None = None,
        enqueue_wait_s: float = WAIT_S,
        on_deferred: Deferred = warn,
        book_query: BookQuery | None = None,
        closing: Iterable[Callable[[], None]] = (),
    ) -> Self:
        """The graph that the settings name; `book_query` (`EmbedQueue.book_query`) counts its searches.

        `closing`: what was opened for this graph alone; `close` calls each after it has closed the driver.

        Raises `SettingsError` when the model's width cannot be known.
        """
        spec = describe(settings)
        return cls(
            database or Database(settings.graph_address()),
            TextRecipe.from_settings(settings),
            spec.model,
            dimensions=spec.dimensions,
            label=settings.embed_entity_label,
            key=settings.embed_entity_key,
            deleted=settings.deleted_property(),
            vector_index=settings.neo4j_vector_index,
            enqueue=enqueue,
            enqueue_wait_s=enqueue_wait_s,
            on_deferred=on_deferred,
            embed=QueryEmbedder(settings, book_query),
            closing=closing,
        )

    def close(self) -> None:
        """Closes the driver, and what was opened for this graph alone."""
        with ExitStack() as stack:
            for close in reversed(self._closing):
                stack.callback(close)
            stack.callback(self.database.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create_entities(
        self,
        entities: Iterable[EntityInput | Mapping[str, Any]],
        *,
        priority: int = PRIORITY_DEFAULT,
        keep: bool = False,
    ) -> list[EntityResult]:
        """Creates entities, or merges the given properties into those of the same key, in one transaction.

        A mapping holds the properties as they are stored, the key among them; a None removes a property. Two
        entries of one key are merged, the later one wins. A soft-deleted entity comes back. `keep`: a current entity
        stays as it is, and its result is `unchanged`. Returns one result for each entry, in their order. Raises
        ValueError for an entry without a key or with a property that is this library's own. For more than some
        thousands of them there is `load_entities`.
        """
        entries = self._entries(entities)
        results = self._handed_over(self._asked(self._create(entries, keep=keep), priority))
        return [results[name] for name in entries.names]

    def load_entities(
        self,
        entities: Iterable[EntityInput | Mapping[str, Any]],
        *,
        priority: int = PRIORITY_BACKFILL,
        progress: Progress | None = None,
    ) -> Loaded:
        """Creates or merges any number of entities as `create_entities` does, a page of them in each transaction.

        `entities` may be a generator: about three pages of it are in memory (1,000 entries each, or four million
        characters). `progress` is called after each page with what is done so far. Raises ValueError for a wrong
        entry; the pages before it are written, and a note of the error says how many entries these are.
        """

        steps = Steps(
            prepare=self._entries,
            write=self._create,
            ask=lambda written: self._asked(written, priority),
            hand_over=self._handed_over,
        )
        return load(entities, steps, progress)

    def load_relations(
        self,
        relations: Iterable[Relation | tuple[str | int, str, str | int]],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Relates any number of entities as `create_relations` does, a page in each transaction; returns how many were
        given. `progress` is called after each page with the number so far.
        """
        return load_relations(relations, self._ends, self._relate, progress)

    def update_entity(
        self, name: str | int, properties: Mapping[str, Any], *, priority: int = PRIORITY_DEFAULT
    ) -> EntityResult:
        """Merges properties into an entity; None removes one, another key renames it.

        Raises EntityNotFound, and KeyTaken where another entity has that key.
        """
        uid, changed = checked_name(name), dict(properties)
        check_properties(uid, changed, self._own)
        if self.key not in changed:
            return self._only(uid, self._change(lambda tx: self._update(tx, {uid: changed}), priority))
        key = checked_key(changed[self.key], self.key)

        def rename(tx: ManagedTransaction) -> list[Row]:
            (stored,) = self._stored(tx, {str(key): key}).values()
            return self._update(tx, {uid: {**changed, self.key: stored}})

        try:
            return self._only(uid, self._change(rename, priority))
        except ConstraintError:
            # It may be another constraint that the properties break.
            if taken := self.read_texts([str(key)]):
                deleted = all(text.deleted for text in taken)
                raise KeyTaken(uid, str(key), deleted=deleted) from None
            raise

    def touch(self, names: Iterable[str | int], *, priority: int = PRIORITY_DEFAULT) -> list[EntityResult]:
        """Says that these entities were changed by other means, such as plain Cypher: what is stale gets its job.

        Looks at their texts: an entity whose vector is fresh stays as it is, any other goes into the outbox and is
        handed over, as after a write of this class. Returns one result for each that is there, in the order of the
        keys given; `job` is None where nothing is to be done. One transaction for each 500 keys.
        """
        given = [names] if isinstance(names, str | int) else names
        wanted = list(dict.fromkeys(checked_name(name) for name in given))
        touched: dict[str, EntityResult] = {}
        for at in range(0, len(wanted), PAGE):
            page: dict[str, dict[str, Any]] = {name: {} for name in wanted[at : at + PAGE]}
            work = partial(self._update, changes=page)
            touched |= self._change(work, priority)
        return [touched[name] for name in wanted if name in touched]

    def add_observations(self, name: str | int, observations: Sequence[str]) -> list[str]:
        """Appends those observations that the entity has not yet, and returns them. Raises EntityNotFound."""
        uid = checked_name(name)
        given = checked_observations(uid, observations)

        def added(there: list[str]) -> list[str]:
            return [each for each in dict.fromkeys(given) if each not in there]

        return self._observe(uid, added, lambda there, new: there + new)

    def delete_observations(self, name: str | int, observations: Sequence[str]) -> list[str]:
        """Removes these observations, and returns those that were there. Raises EntityNotFound."""
        uid = checked_name(name)
        given = checked_observations(uid, observations)

        def removed(there: list[str]) -> list[str]:
            return [each for each in there if each in given]

        return self._observe(uid, removed, lambda there, gone: [each for each in there if each not in gone])

    def delete_entity(self, name: str | int, *, soft: bool = False) -> None:
        """Deletes an entity and its relationships. Raises EntityNotFound.

        `soft` sets the property of `EMBED_DELETED_PROPERTY` instead. Raises ValueError where there is none.
        """
        uid = checked_name(name)
        if soft and self.deleted.name is None:
            raise ValueError(
                f"entity {uid!r:.80} cannot be soft-deleted: no property hides an entity, for "
                "EMBED_DELETED_PROPERTY is empty; name one there, or delete the entity"
            )
        query = self._statement("soft_delete" if soft else "delete")
        if not self.database.write(query, keys=keys_of(uid))[0]["deleted"]:
            raise self.not_found(uid)

    def create_relations(self, relations: Iterable[Relation | tuple[str | int, str, str | int]]) -> None:
        """Relates entities (source, type, target) in one transaction; what is there already stays.

        Raises EntityNotFound when an end of any of them is not there, and ValueError for a type that the server
        cannot hold; then none is created. Any other text is a type, whatever it looks like.
        """
        self._relate(self._ends(relations))

    def get_entity(self, name: str | int) -> Entity:
        """A current entity, without its vector. Raises EntityNotFound."""
        uid = checked_name(name)
        found = self.database.read(self._statement("get"), keys=keys_of(uid))
        if not found:
            raise self.not_found(uid)
        row = found[0]
        properties = {key: value for key, value in row["properties"].items() if key != self.vector.name}
        return Entity(uid, tuple(row["labels"]), properties, row["embedded"], row["pending"])

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        mode: SearchMode | str | None = None,
        min_score: float | None = None,
        labels: Iterable[str] = (),
        where: Mapping[str, Any] | None = None,
        changed_since: datetime | str | None = None,
        strict: bool = False,
        lucene: bool = False,
        embed: EmbedQuery | None = None,
    ) -> SearchAnswer:
        """Finds entities by meaning, by words, or by both, best first. Soft-deleted ones are never found.

        `mode`: `semantic` (vectors), `keyword` (words), `hybrid` (both, their places fused); by default hybrid where
        there is a full-text index over the text, else semantic. Where a half cannot answer (no provider, no index, no
        vectors, no room in the rate limit, no answer within `EMBED_SEARCH_TIMEOUT_MS`), the other one does, and
        `fallback_reason` says why; with `strict` that is raised instead: `SettingsError` for what a person must
        change, `TemporarilyUnavailable` or the provider's `InvalidAnswer` for the rest.

        `limit`: at most so many, 1,000 at the most. `min_score`: the least `score` of a hit (see `Hit`).
        `labels`: the entity carries each of them. `where`: it has these values in these properties; None: it has no
        such property. `changed_since`: its vector was made at that time or later, or its change still waits for one;
        a datetime or a text in ISO 8601, in UTC where it names no zone.

        The words of a query are words, whatever they look like. With `lucene` they are Lucene's syntax, and the mode is
        `keyword` unless another is given.

        `embed` makes the query's vector, by default the model of the settings. Raises ValueError for what cannot be
        meant (a blank query, a limit below 1, no such mode, a mistake in the syntax), `SettingsError` before
        `neo4j-queue init`, and the driver's errors, or `TemporarilyUnavailable`, if the graph does not answer.
        """
        request = SearchRequest.checked(
            query,
            limit,
            mode=mode,
            min_score=min_score,
            labels=labels,
            where=where,
            changed_since=changed_since,
            strict=strict,
            lucene=lucene,
        )
        return self._search.answer(request, embed)
