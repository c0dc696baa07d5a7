"""The writing side of the graph: one transaction for each change, and the hand-over of what needs a vector."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

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
from neo4j_queue.graph.entities import (
    Asked,
    Change,
    EntityInput,
    EntityResult,
    Entries,
    Written,
)
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
        return self._handed_over(self._asked(self._changed(work), priority))

    def _changed(self, work: Callable[[ManagedTransaction], list[Row]]) -> Written:
        """What a change has done, which is committed; nothing is handed over yet."""
        for _ in range(ROUNDS):
            try:
                return self.database.transaction(lambda tx: self._settle(tx, work(tx)))
            except _Vanished:
                continue
        raise TimeoutError("an entity was deleted each time while it was being written")

    def _entries(self, entities: Iterable[EntityInput | Mapping[str, Any]]) -> Entries:
        """Entities as they are to be written, those of one name merged. Raises ValueError for a wrong one."""
        found = Entries([], {}, {})
        for entity in entities:
            key, properties = self._entry(entity)
            found.names.append(uid := str(key))
            found.keys.setdefault(uid, key)
            found.properties.setdefault(uid, {}).update(properties)
        return found

    def _create(self, entries: Entries, *, keep: bool = False) -> Written:
        """Creates entities, or merges properties into those that are there, in one transaction; `keep`: leaves those
        as they are."""
        return self._changed(lambda tx: self._upsert(tx, entries, keep=keep))

    def _upsert(self, tx: ManagedTransaction, entries: Entries, *, keep: bool) -> list[Row]:
        stored = self._stored(tx, entries.keys)
        changes = entries.properties
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
        """Marks what needs a vector and unmarks what has its vector again.

        The text is made here only where a vector may be of it: the rest is made after the commit, when nobody waits
        for the locks.
        """
        if any(row["key"] is None for row in written):
            raise _Vanished
        texts = {n: self._text(row) for n, row in enumerate(written) if row["width"] is not None}
        fresh = {n for n, text in texts.items() if text.fresh}
        mark = Bulk(row["node"] for n, row in enumerate(written) if n not in fresh and not row["pending"])
        if mark:
            rows(tx, self._statement("mark_pending"), nodes=mark)
        unmark = Bulk(written[n]["node"] for n in sorted(fresh) if written[n]["pending"])
        if unmark:
            rows(tx, self._statement("unmark_pending"), nodes=unmark)
        return Written(written, texts)

    def _asked(self, written: Written, priority: int) -> Asked:
        """What the queue is to be asked for."""
        texts = [written.texts.get(n) or self._text(row) for n, row in enumerate(written.rows)]
        self._warn_of_blank([text.uid for text in texts if text.blank])
        requests = [text.request(self.model, priority=priority) for text in texts if not text.fresh]
        changes = {text.uid: _change_of(row) for row, text in zip(written.rows, texts, strict=True)}
        return Asked(changes, requests)

    def _handed_over(self, asked: Asked) -> dict[str, EntityResult]:
        """The result of each entity, by name."""
        jobs = {result.entity_uid: result for result in self._outbox.hand_over(asked.requests)}
        return {uid: EntityResult(uid, change, jobs.get(uid)) for uid, change in asked.changes.items()}

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

    def _ends(self, relations: Iterable[Any]) -> list[Row]:
        """Relations as they are to be written. Raises ValueError for what is none."""
        given = [checked_relation(each) for each in relations]
        for each in given:
            check_type(each)
        ends = [(checked_name(each.source), checked_name(each.target), each.type) for each in given]
        # The order is the lock order, as of `_upsert`.
        ends.sort()
        return [
            {"at": at, "source": keys_of(source), "type": kind, "target": keys_of(target)}
            for at, (source, target, kind) in enumerate(ends)
        ]

    def _relate(self, ends: list[Row], *, few: bool = False) -> bool:
        """Relates entities in one transaction. `few`: the graph had few relations; returns whether it still has."""
        few = few and bool(self.database.read(self._statement("relations"))[0]["relations"] < FEW_RELATIONS)
        query = self._statement("relate")
        if few:
            query = planned_anew(query)
        with self._explained():
            self.database.transaction(lambda tx: self._relate_all(tx, query, Bulk(ends)))
        return few

    def _relate_all(self, tx: ManagedTransaction, query: str, ends: Bulk[Row]) -> None:
        done = {row["at"] for row in rows(tx, query, rows=ends)}
        for row in ends:
            if row["at"] not in done:
                source, target = _name_of(row["source"]), _name_of(row["target"])
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


def _name_of(keys: Sequence[Key]) -> str:
    """The name that these keys stand for (`keys_of`)."""
    return str(keys[0])


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
