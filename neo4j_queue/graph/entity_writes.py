"""The writing side of the graph: one transaction for each change, and the hand-over of what needs a vector."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from neo4j import ManagedTransaction

from neo4j_queue.cypher import planned_anew
from neo4j_queue.database import Bulk, Database, Row, packed, rows
from neo4j_queue.errors import EntityNotFound
from neo4j_queue.graph.accepted import (
    check_properties,
    check_type,
    checked_key,
    checked_name,
    checked_relation,
)
from neo4j_queue.graph.entities import Change, EntityInput, EntityResult, EntityText, Relation
from neo4j_queue.graph.keys import (
    SAMPLE_OF_NUMBERS,
    Key,
    Place,
    keys_of,
    lists_of,
    named,
    number_of,
    stored_keys,
)
from neo4j_queue.graph.outbox import Outbox
from neo4j_queue.graph.vectors import EntityVectors
from neo4j_queue.jobs import PRIORITY_DEFAULT
from neo4j_queue.log import get_logger
from neo4j_queue.names import DELETED, VECTOR, DeletedProperty, VectorProperty
from neo4j_queue.text import TextRecipe, observations_of

# An entity was deleted while its re-creation waited for the lock: the next round creates it anew. After so many rounds
# another program deletes it in a loop.
ROUNDS = 5

# While a server has fewer relations than this, it may plan to look through all of them for each that is to be made, and
# it keeps such a plan for some seconds: long enough to make a load of them take minutes.
FEW_RELATIONS = 1_000

log = get_logger()

T = TypeVar("T")


Written = list[tuple[EntityText, Change]]


class Created(NamedTuple):
    """Entities that are written: the names of the entries in their order, and what was done."""

    names: list[str]
    written: Written


class EntityWrites(EntityVectors):
    """Changes of entities, each with its mark in the outbox."""

    def __init__(
        self,
        database: Database,
        recipe: TextRecipe,
        model: str,
        outbox: Outbox,
        *,
        dimensions: int,
        label: str = "Entity",
        key: str = "name",
        vector: VectorProperty = VECTOR,
        deleted: DeletedProperty = DELETED,
    ) -> None:
        super().__init__(
            database,
            recipe,
            model,
            dimensions=dimensions,
            label=label,
            key=key,
            vector=vector,
            deleted=deleted,
        )
        self._outbox = outbox
        # Written by the vector write and by the soft delete alone: a caller who sets them would make a stale vector
        # look fresh.
        self._own = vector.properties | deleted.properties
        # Once the graph has texts as keys, a text that is no number needs no look at which kinds there are.
        self._has_texts = False

    def _change(
        self, work: Callable[[ManagedTransaction], list[Row]], priority: int
    ) -> dict[str, EntityResult]:
        """Runs a change, settles the outbox in the same transaction, and hands over after the commit."""
        return self._handed_over(self._changed(work), priority)

    def _changed(self, work: Callable[[ManagedTransaction], list[Row]]) -> Written:
        """What a change has done, which is committed; nothing is handed over yet."""
        for _ in range(ROUNDS):
            try:
                return self.database.transaction(lambda tx: self._settle(tx, work(tx)))
            except _Vanished:
                continue
        raise TimeoutError("an entity was deleted each time while it was being written")

    def _create(self, entities: Iterable[EntityInput | Mapping[str, Any]], *, keep: bool = False) -> Created:
        """Creates entities, or merges properties into those that are there, in one transaction; `keep`: leaves those
        as they are."""
        merged: dict[str, dict[str, Any]] = {}
        keys: dict[str, Key] = {}
        names: list[str] = []
        for entity in entities:
            key, properties = self._entry(entity)
            names.append(uid := str(key))
            keys.setdefault(uid, key)
            merged.setdefault(uid, {}).update(properties)
        return Created(names, self._changed(lambda tx: self._upsert(tx, keys, merged, keep=keep)))

    def _handed_over_in_order(self, created: Created, priority: int) -> tuple[list[EntityResult], int]:
        """The results in the order of the entries, and how many jobs the queue did not take in time."""
        results = self._handed_over(created.written, priority)
        stale = {text.uid for text, _ in created.written if not text.fresh}
        deferred = sum(results[uid].job is None for uid in stale)
        return [results[uid] for uid in created.names], deferred

    def _upsert(
        self, tx: ManagedTransaction, keys: Mapping[str, Key], changes: Mapping[str, Any], *, keep: bool
    ) -> list[Row]:
        stored = self._stored(tx, keys)
        # The order is the lock order: writers of the same entities wait for one another and never deadlock.
        batch = Bulk({"key": stored[uid], "properties": changes[uid]} for uid in sorted(changes))
        return self._merge(tx, "upsert", batch, keep=keep)

    def _update(self, tx: ManagedTransaction, changes: Mapping[str, Any]) -> list[Row]:
        return self._merge(
            tx,
            "update",
            Bulk({"keys": keys_of(uid), "properties": changes[uid]} for uid in sorted(changes)),
        )

    def _merge(
        self, tx: ManagedTransaction, name: str, batch: Bulk[dict[str, Any]], **further: Any
    ) -> list[Row]:
        sources = list(self.recipe.properties)
        return packed(tx, self._statement(name), rows=batch, properties=sources, model=self.model, **further)

    def _stored(self, tx: ManagedTransaction, keys: Mapping[str, Key]) -> dict[str, Place]:
        """The key that each name is stored with: see `stored_keys`."""
        doubtful = [uid for uid in keys if number_of(uid) is not None]
        if self._has_texts and not doubtful:
            return {**keys}
        names, most = Bulk(lists_of(doubtful)), SAMPLE_OF_NUMBERS
        (kinds,) = rows(tx, self._statement("key_kinds"), names=names, most=most)
        stored = stored_keys(keys, texts=kinds["texts"], numbers=kinds["numbers"], there=kinds["there"])
        self._has_texts = kinds["texts"]
        return stored

    def _settle(self, tx: ManagedTransaction, written: list[Row]) -> Written:
        """Marks what needs a vector and unmarks what has its vector again."""
        if any(row["key"] is None for row in written):
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
        chosen: list[str] = []

        def work(tx: ManagedTransaction) -> list[Row]:
            found = rows(tx, self._statement("lock_observations"), keys=keys_of(name))
            if not found:
                raise EntityNotFound(name)
            stored = found[0]["observations"]
            there = observations_of(stored)
            chosen[:] = choose(there)
            if not chosen:
                return []
            return self._update(tx, {name: {"observations": _like(stored, apply(there, chosen))}})

        with self._explained():
            self._change(work, PRIORITY_DEFAULT)
        return chosen

    def _create_relations(self, relations: Iterable[Any], *, plan_anew: bool = False) -> None:
        """Relates entities in one transaction."""
        given = [checked_relation(each) for each in relations]
        for each in given:
            check_type(each)
        wanted = [Relation(checked_name(each.source), each.type, checked_name(each.target)) for each in given]
        # The order is the lock order, as of `_upsert`.
        wanted.sort(key=lambda each: (each.source, each.target, each.type))
        query = self._statement("relate")
        if plan_anew:
            query = planned_anew(query)
        with self._explained():
            self.database.transaction(lambda tx: self._relate(tx, query, wanted))

    def _has_few_relations(self) -> bool:
        return bool(self.database.read(self._statement("relations"))[0]["relations"] < FEW_RELATIONS)

    def _relate(self, tx: ManagedTransaction, query: str, relations: Sequence[Relation]) -> None:
        batch = Bulk(
            {
                "at": at,
                "source": keys_of(str(each.source)),
                "type": each.type,
                "target": keys_of(str(each.target)),
            }
            for at, each in enumerate(relations)
        )
        done = {row["at"] for row in rows(tx, query, rows=batch)}
        for at, each in enumerate(relations):
            if at not in done:
                source, target = str(each.source), str(each.target)
                there = {named(text["key"]) for text in self._current(tx, (source, target))}
                raise EntityNotFound(source if source not in there else target)

    def _current(self, tx: ManagedTransaction, uids: Sequence[str]) -> list[Row]:
        query = self._statement("read_texts")
        found = packed(tx, query, names=Bulk(lists_of(uids)), properties=[], model=self.model)
        return [row for row in found if not row["deleted"]]

    def _entry(self, entity: EntityInput | Mapping[str, Any]) -> tuple[Key, dict[str, Any]]:
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
        key = checked_key(properties.pop(self.key, None), self.key)
        check_properties(str(key), properties, self._own)
        return key, properties

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
