"""EntityGraph: what applications write and read. Entities are written in milliseconds, vectors appear by themselves."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Self, TypeVar

from neo4j import ManagedTransaction

from neo4j_queue.database import Bulk, Database, Row, packed, rows
from neo4j_queue.embedders import describe
from neo4j_queue.errors import EntityNotFound
from neo4j_queue.graph.accepted import (
    check_name,
    check_properties,
    check_type,
    checked_key,
    checked_limit,
    checked_observations,
)
from neo4j_queue.graph.booking import BookQuery
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
from neo4j_queue.graph.outbox import WAIT_S, Deferred, Enqueue, Outbox, warn
from neo4j_queue.graph.search import EmbedQuery, Hit, QueryEmbedder, VectorSearch
from neo4j_queue.graph.vectors import PAGE, EntityVectors
from neo4j_queue.jobs import PRIORITY_DEFAULT
from neo4j_queue.log import get_logger
from neo4j_queue.names import VECTOR, VectorProperty
from neo4j_queue.settings import Settings
from neo4j_queue.text import TextRecipe, observations_of

__all__ = [
    "Change",
    "Coverage",
    "Entity",
    "EntityGraph",
    "EntityInput",
    "EntityResult",
    "EntityText",
    "Hit",
    "Relation",
    "VectorWrite",
]

# An entity was deleted while its re-creation waited for the lock: the next round creates it anew. After so many rounds
# another program deletes it in a loop.
ROUNDS = 5

log = get_logger()

T = TypeVar("T")


class EntityGraph(EntityVectors):
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
        vector_index: str = "entity_embeddings",
        enqueue: Enqueue | None = None,
        enqueue_wait_s: float = WAIT_S,
        on_deferred: Deferred = warn,
        embed: EmbedQuery | None = None,
        closing: Iterable[Callable[[], None]] = (),
    ) -> None:
        super().__init__(database, recipe, model, dimensions=dimensions, label=label, key=key, vector=vector)
        self.vector_index = vector_index
        self._closing = tuple(closing)
        self._outbox = Outbox(enqueue, wait_s=enqueue_wait_s, deferred=on_deferred)
        self._embed = embed

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
        self, entities: Iterable[EntityInput | Mapping[str, Any]], *, priority: int = PRIORITY_DEFAULT
    ) -> list[EntityResult]:
        """Creates entities, or merges the given properties into those of the same key, in one transaction.

        A mapping holds the properties as they are stored, the key among them; a None removes a property. Two
        entries of one key are merged, the later one wins. A soft-deleted entity comes back. Returns one result
        for each entry, in their order. Raises ValueError for an entry without a key or with a property that is
        this library's own.
        """
        entries = [self._entry(entity) for entity in entities]
        merged: dict[str, dict[str, Any]] = {}
        for uid, properties in entries:
            merged.setdefault(uid, {}).update(properties)
        written = self._change(lambda tx: self._merge(tx, "upsert", merged), priority)
        return [written[uid] for uid, _ in entries]

    def update_entity(
        self, name: str, properties: Mapping[str, Any], *, priority: int = PRIORITY_DEFAULT
    ) -> EntityResult:
        """Merges properties into an entity; None removes one, another key renames it. Raises EntityNotFound."""
        check_name(name)
        check_properties(name, properties)
        if self.key in properties:
            checked_key(properties[self.key], self.key)
        changed = {name: dict(properties)}
        return self._only(name, self._change(lambda tx: self._merge(tx, "update", changed), priority))

    def touch(self, names: Iterable[str], *, priority: int = PRIORITY_DEFAULT) -> list[EntityResult]:
        """Says that these entities were changed by other means, such as plain Cypher: what is stale gets its job.

        Looks at their texts: an entity whose vector is fresh stays as it is, any other goes into the outbox and is
        handed over, as after a write of this class. Returns one result for each that is there, in the order of the
        keys given; `job` is None where nothing is to be done. One transaction for each 500 keys.
        """
        wanted = list(dict.fromkeys([names] if isinstance(names, str) else names))
        for name in wanted:
            check_name(name)
        touched: dict[str, EntityResult] = {}
        for at in range(0, len(wanted), PAGE):
            page: dict[str, dict[str, Any]] = {name: {} for name in wanted[at : at + PAGE]}
            work = partial(self._merge, name="update", changes=page)
            touched |= self._change(work, priority)
        return [touched[name] for name in wanted if name in touched]

    def add_observations(self, name: str, observations: Sequence[str]) -> list[str]:
        """Appends those observations that the entity has not yet, and returns them. Raises EntityNotFound."""
        given = checked_observations(name, observations)

        def added(there: list[str]) -> list[str]:
            return [each for each in dict.fromkeys(given) if each not in there]

        return self._observe(name, added, lambda there, new: there + new)

    def delete_observations(self, name: str, observations: Sequence[str]) -> list[str]:
        """Removes these observations, and returns those that were there. Raises EntityNotFound."""
        given = checked_observations(name, observations)

        def removed(there: list[str]) -> list[str]:
            return [each for each in there if each in given]

        return self._observe(name, removed, lambda there, gone: [each for each in there if each not in gone])

    def delete_entity(self, name: str, *, soft: bool = False) -> None:
        """Deletes an entity and its relationships; `soft` sets `validTo` instead. Raises EntityNotFound."""
        check_name(name)
        query = self._statement("soft_delete" if soft else "delete")
        if not self.database.write(query, uid=name)[0]["deleted"]:
            raise self.not_found(name)

    def create_relations(self, relations: Iterable[Relation | tuple[str, str, str]]) -> None:
        """Relates entities (source, type, target) in one transaction; what is there already stays.

        Raises EntityNotFound when an end of any of them is not there, and ValueError for a type that the server
        cannot hold; then none is created. Any other text is a type, whatever it looks like.
        """
        wanted = [each if isinstance(each, Relation) else Relation(*each) for each in relations]
        for each in wanted:
            check_name(each.source)
            check_name(each.target)
            check_type(each)
        # The order is the lock order, as of `_merge`.
        wanted.sort(key=lambda each: (each.source, each.target, each.type))
        with self._explained():
            self.database.transaction(lambda tx: self._relate(tx, wanted))

    def get_entity(self, name: str) -> Entity:
        """A current entity, without its vector. Raises EntityNotFound."""
        check_name(name)
        found = self.database.read(self._statement("get"), uid=name)
        if not found:
            raise self.not_found(name)
        row = found[0]
        properties = {key: value for key, value in row["properties"].items() if key != self.vector.name}
        return Entity(name, tuple(row["labels"]), properties, row["embedded"], row["pending"])

    def search(self, query: str, limit: int = 10, *, embed: EmbedQuery | None = None) -> list[Hit]:
        """The entities nearest in meaning to the query, best first.

        `embed` makes the query's vector, by default the model of the settings. Raises ValueError for a blank
        query and a limit below 1, and whatever the provider or the vector index raises.
        """
        embed = embed or self._embed
        if embed is None or not query.strip():
            raise ValueError(
                "the query is blank" if embed else "nothing to embed the query with: give `embed`"
            )
        found = VectorSearch(self.database, self.model, self.vector_index, self.label, self.key, self.vector)
        return found.nearest(embed(query), checked_limit(limit))

    # --- Writing, inside one transaction -----------------------------------------------------------------

    def _change(
        self, work: Callable[[ManagedTransaction], list[Row]], priority: int
    ) -> dict[str, EntityResult]:
        """Runs a change, settles the outbox in the same transaction, and hands over after the commit."""
        for _ in range(ROUNDS):
            try:
                written = self.database.transaction(lambda tx: self._settle(tx, work(tx)))
            except _Vanished:
                continue
            return self._handed_over(written, priority)
        raise TimeoutError("an entity was deleted each time while it was being written")

    def _merge(self, tx: ManagedTransaction, name: str, changes: Mapping[str, Any]) -> list[Row]:
        # The order is the lock order: writers of the same entities wait for one another and never deadlock.
        batch = Bulk({"uid": uid, "properties": changes[uid]} for uid in sorted(changes))
        sources = list(self.recipe.properties)
        return packed(tx, self._statement(name), rows=batch, properties=sources, model=self.model)

    def _settle(self, tx: ManagedTransaction, written: list[Row]) -> list[tuple[EntityText, Change]]:
        """Marks what needs a vector and unmarks what has its vector again."""
        if any(row["uid"] is None for row in written):
            raise _Vanished
        texts = [self._text(row) for row in written]
        pairs = list(zip(written, texts, strict=True))
        mark = Bulk(row["node"] for row, text in pairs if not text.fresh and not row["pending"])
        if mark:
            rows(tx, self._statement("mark_pending"), nodes=mark)
        unmark = Bulk(row["node"] for row, text in pairs if text.fresh and row["pending"])
        if unmark:
            rows(tx, self._statement("unmark_pending"), nodes=unmark)
        return [(text, _change_of(row)) for row, text in pairs]

    def _handed_over(
        self, written: Sequence[tuple[EntityText, Change]], priority: int
    ) -> dict[str, EntityResult]:
        requests = [text.request(self.model, priority=priority) for text, _ in written if not text.fresh]
        self._warn_of_blank([text.uid for text, _ in written if text.blank])
        jobs = {result.entity_uid: result for result in self._outbox.hand_over(requests)}
        return {text.uid: EntityResult(text.uid, change, jobs.get(text.uid)) for text, change in written}

    def _warn_of_blank(self, uids: Sequence[str]) -> None:
        """Says at the call what the worker would say later: nothing was written that the text is made of."""
        if uids:
            properties = list(self.recipe.properties)
            log.warning(
                "entities_without_text", entities=len(uids), example=uids[0], text_properties=properties
            )

    def _observe(
        self,
        name: str,
        choose: Callable[[list[str]], list[str]],
        apply: Callable[[list[str], list[str]], list[str]],
    ) -> list[str]:
        check_name(name)
        chosen: list[str] = []

        def work(tx: ManagedTransaction) -> list[Row]:
            found = rows(tx, self._statement("lock_observations"), uid=name)
            if not found:
                raise EntityNotFound(name)
            stored = found[0]["observations"]
            there = observations_of(stored)
            chosen[:] = choose(there)
            if not chosen:
                return []
            return self._merge(tx, "update", {name: {"observations": _like(stored, apply(there, chosen))}})

        with self._explained():
            self._change(work, PRIORITY_DEFAULT)
        return chosen

    def _relate(self, tx: ManagedTransaction, relations: Sequence[Relation]) -> None:
        batch = Bulk(
            {"at": at, "source": each.source, "type": each.type, "target": each.target}
            for at, each in enumerate(relations)
        )
        done = {row["at"] for row in rows(tx, self._statement("relate"), rows=batch)}
        for at, each in enumerate(relations):
            if at not in done:
                there = {text["uid"] for text in self._current(tx, (each.source, each.target))}
                raise EntityNotFound(each.source if each.source not in there else each.target)

    def _current(self, tx: ManagedTransaction, uids: Sequence[str]) -> list[Row]:
        query = self._statement("read_texts")
        found = packed(tx, query, uids=list(uids), properties=[], model=self.model)
        return [row for row in found if not row["deleted"]]

    # --- What callers give -------------------------------------------------------------------------------

    def _entry(self, entity: EntityInput | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The key of an entity to write, and its other properties as they are stored."""
        if isinstance(entity, EntityInput):
            properties = dict(entity.properties)
            properties[self.key] = entity.name
            if entity.entity_type is not None:
                properties["entityType"] = entity.entity_type
            if entity.observations is not None:
                properties["observations"] = list(entity.observations)
        elif isinstance(entity, Mapping):
            properties = dict(entity)
        else:
            raise ValueError(f"an entity is an EntityInput or a map of properties, not {entity!r:.80}")
        uid = checked_key(properties.pop(self.key, None), self.key)
        check_properties(uid, properties)
        return uid, properties

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Adds to an `EntityNotFound` from inside a transaction what stands there instead, after its end."""
        try:
            yield
        except EntityNotFound as error:
            raise self.not_found(error.name) from None

    def _only(self, name: str, written: Mapping[str, T]) -> T:
        if not written:
            raise self.not_found(name)
        return next(iter(written.values()))


class _Vanished(Exception):
    """An entity was deleted between its match and its lock: the transaction is rolled back and run anew."""


def _change_of(row: Row) -> Change:
    if row["created"]:
        return Change.CREATED
    return Change.UPDATED if row["changed"] else Change.UNCHANGED


def _like(stored: Any, observations: list[str]) -> list[str] | str:
    """Observations in the form in which they were stored: a JSON array in a string stays one."""
    if isinstance(stored, str) and stored.lstrip().startswith("["):
        return json.dumps(observations, ensure_ascii=False)
    return observations
