"""The vector side of the graph: which texts there are, whose vector is fresh, and the fenced write."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from neo4j import ManagedTransaction, Record
from neo4j.exceptions import Neo4jError

from neo4j_queue.cypher import statement
from neo4j_queue.database import Bulk, Database, Row, packed, rows
from neo4j_queue.embedders.base import is_usable
from neo4j_queue.errors import EntityLocked, EntityNotFound
from neo4j_queue.graph.accepted import checked_name
from neo4j_queue.graph.entities import Coverage, EntityText, VectorWrite
from neo4j_queue.graph.keys import (
    BEFORE_NUMBERS,
    BEFORE_TEXTS,
    Place,
    end_of,
    keys_of,
    lists_of,
    name_of,
    named,
    number_of,
    order,
    without_key,
)
from neo4j_queue.graph.known import Known, known
from neo4j_queue.names import DELETED, OUTBOX_LABEL, VECTOR, DeletedProperty, VectorProperty
from neo4j_queue.text import TextRecipe, content_hash
from neo4j_queue.times import epoch_ms

# A write of vectors takes a fraction of a second. Where the server itself bounds no wait for a lock, this ends it.
WRITE_TIMEOUT_S = 10.0
# How the server ends the wait for a lock: by its own bound, or by that of the transaction.
LOCK_WAIT_ENDED = frozenset(
    {
        "Neo.TransientError.Transaction.LockAcquisitionTimeout",
        "Neo.ClientError.Transaction.LockClientStopped",
        "Neo.ClientError.Transaction.TransactionTimedOut",
        "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration",
    }
)
LOCKED_NODE = re.compile(r"\bNODE with id: (\d+)")

T = TypeVar("T")

# A page of a sweep: large enough that the round trip does not count, small enough for a few megabytes of texts.
PAGE = 500
# Entities that one statement passes over in search of those without a vector, where hardly any is: some milliseconds,
# and where all are, a page of as many texts.
STEPS = 2_000
# "All of them" for a statement that wants a bound and has another one.
EVERY = 2**31


class Walk(NamedTuple):
    """Texts found on the way through the keys, and the key at which the way goes on; None: it is at its end.

    What it costs is bounded by the entities passed over, not by those found. Entities that share a key are all found in
    one piece.
    """

    texts: list[EntityText]
    last: Place | None


class EntityVectors:
    """Reads texts and writes vectors; knows no queue.

    `model` is the identity of the embedding model as entities carry it, `dimensions` the length of its vectors,
    `vector` the property that holds them.
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
    ) -> None:
        self.database = database
        self.recipe = recipe
        self.model = model
        self.dimensions = dimensions
        self.label = label
        self.key = key
        self.vector = vector
        self.deleted = deleted

    def read_texts(self, uids: Iterable[str]) -> list[EntityText]:
        """The texts of these entities, in one query.

        An entity that is not there has no row; a key that several entities share has several.
        """
        wanted = Bulk(keys_of(uid) for uid in dict.fromkeys(uids))
        if not wanted:
            return []
        return self._texts("read_texts", leader=True, names=wanted)

    def read_wanted(self, versions: Mapping[str, Iterable[str]]) -> list[EntityText]:
        """As `read_texts`, by uid with the content versions that are wanted of it.

        A text is `known` when an entity seems to carry the vector of a wanted version (see `copies`).
        """
        wanted = Bulk({"keys": keys_of(uid), "versions": list(versions[uid])} for uid in sorted(versions))
        if not wanted:
            return []
        return self._texts("read_wanted", leader=True, wanted=wanted)

    def copies(self, hashes: Sequence[str]) -> dict[str, list[float]]:
        """Vectors that entities carry for texts of these content hashes, whichever entities these are.

        A vector that another program has damaged (another length, no number, zero) is left out.
        """
        if not hashes:
            return {}
        found = self.database.read(
            self._statement("copies"), leader=True, hashes=Bulk(hashes), model=self.model
        )
        return {row["hash"]: row["vector"] for row in found if is_usable(row["vector"], self.dimensions)}

    def get_text(self, name: str | int) -> EntityText:
        """The text of a current entity. Raises EntityNotFound."""
        uid = checked_name(name)
        for text in self.read_texts([uid]):
            if not text.deleted:
                return text
        raise self.not_found(uid)

    def not_found(self, name: str) -> EntityNotFound:
        """The error for a key that no current entity has; it says what stands there instead."""
        found = self.database.read(
            self._statement("why_not"), leader=True, keys=keys_of(name), number=_decimal(name)
        )
        reason = None
        if found[0]["deleted"]:
            reason = f"one of that `{self.key}` is soft-deleted: it has a `{self.deleted.name}`"
        elif found[0]["decimal"]:
            reason = (
                f"its `{self.key}` is a number, and only whole ones name entities, written without a point"
            )
        return EntityNotFound(name, reason)

    def write_vectors(self, writes: Sequence[VectorWrite]) -> set[tuple[str, str]]:
        """Writes vectors whose text is still the entity's, in one transaction; returns (uid, content_hash) of each.

        What is not in the answer was changed, deleted or soft-deleted since its text was read: nothing was
        written there. Raises ValueError for a vector of another length than the index takes (it would be
        stored, and never found), and EntityLocked when another transaction holds one of the entities.
        """
        for write in writes:
            if len(write.vector) != self.dimensions:
                raise ValueError(f"a vector of {len(write.vector)} numbers, {self.dimensions} are needed")
        if not writes:
            return set()
        ordered = sorted(writes, key=lambda write: (write.uid, write.content_hash))
        exact = all(_survives(value) for write in ordered for value in write.source)
        found = self._with_locks(lambda tx: self._write(tx, ordered, exact=exact))
        return {(row["uid"], row["hash"]) for row in found}

    def _with_locks(self, work: Callable[[ManagedTransaction], T]) -> T:
        """A transaction that locks entities. Raises EntityLocked when one of them stays locked, after one wait: the
        driver would repeat the transaction, and wait again with the locks of all others in hand."""

        def once(tx: ManagedTransaction) -> T:
            try:
                return work(tx)
            except Neo4jError as error:
                if error.code in LOCK_WAIT_ENDED:
                    raise EntityLocked(error.message or error.code) from error
                raise

        try:
            return self.database.transaction(once, timeout_s=WRITE_TIMEOUT_S)
        except EntityLocked as locked:
            raise EntityLocked(str(locked), self._named_by(str(locked))) from locked

    def _named_by(self, message: str) -> str | None:
        """The key of the entity whose lock a message says was not granted."""
        match = LOCKED_NODE.search(message)
        if match is None:
            return None
        found = self.database.read(self._statement("key_of_node"), node=int(match[1]))
        return name_of(found[0]["key"]) if found else None

    def _write(self, tx: ManagedTransaction, writes: Sequence[VectorWrite], *, exact: bool) -> list[Row]:
        batch = Bulk(
            {
                "keys": keys_of(write.uid),
                "hash": write.content_hash,
                "vector": write.vector,
                "source": list(write.source) if exact else None,
                "node": None,
                "truncated": write.truncated,
            }
            for write in writes
        )
        if not exact:
            batch = self._judged_here(tx, batch)
        return packed(
            tx,
            self._statement("write_vectors"),
            writes=batch,
            properties=list(self.recipe.properties),
            property=self.vector.name,
            model=self.model,
        )

    def remove_vectors(self, texts: Sequence[EntityText]) -> set[tuple[str, str]]:
        """Removes what entities carry that have one of these texts (still), in one transaction; returns (uid,
        content_hash) of each. For texts that have no vector: that of an earlier text must not be found any more.
        """
        if not texts:
            return set()
        wanted = Bulk(sorted({(text.uid, text.content_hash) for text in texts}))
        found = self._with_locks(lambda tx: self._remove(tx, wanted))
        return {(row["uid"], row["hash"]) for row in found}

    def _remove(self, tx: ManagedTransaction, wanted: Bulk[tuple[str, str]]) -> list[Record]:
        batch = self._judged_here(tx, Bulk({"keys": keys_of(uid), "hash": digest} for uid, digest in wanted))
        return rows(tx, self._statement("remove_vectors"), writes=batch)

    def _judged_here(self, tx: ManagedTransaction, batch: Bulk[dict[str, Any]]) -> Bulk[dict[str, Any]]:
        """The rows whose text is unchanged under the lock, each with the node it was judged for."""
        names = Bulk(keys_of(uid) for uid in dict.fromkeys(_name_in(row) for row in batch))
        properties = list(self.recipe.properties)
        locked = packed(tx, self._statement("lock_sources"), names=names, properties=properties)
        nodes: dict[tuple[str, str], list[str]] = {}
        for found in locked:
            now = content_hash(self.recipe.text_of(found["source"]))
            nodes.setdefault((found["uid"], now), []).append(found["node"])
        return Bulk(
            {**row, "node": node} for row in batch for node in nodes.get((_name_in(row), row["hash"]), [])
        )

    def distrust_broken(self, uid: str) -> int:
        """Lets vectors of this key that the index cannot hold (damaged by another program) count as stale; how many.

        For one entity that a person asks about: looking at all vectors would mean reading them all.
        """
        return self.database.transaction(lambda tx: self._distrust_broken(tx, uid))

    def _distrust_broken(self, tx: ManagedTransaction, uid: str) -> int:
        locked = rows(tx, self._statement("lock_vectors"), keys=keys_of(uid))
        broken = Bulk(row["node"] for row in locked if not is_usable(row["vector"], self.dimensions))
        if broken:
            rows(tx, self._statement("distrust"), nodes=broken)
        return len(broken)

    def clear_pending(self, uids: Iterable[str]) -> int:
        """Takes those out of the outbox that have a fresh vector (or are soft-deleted); returns how many."""
        wanted = Bulk(sorted(set(uids)))
        if not wanted:
            return 0
        return self._with_locks(lambda tx: self._clear_pending(tx, wanted))

    def _clear_pending(self, tx: ManagedTransaction, uids: Bulk[str]) -> int:
        properties = list(self.recipe.properties)
        query = self._statement("lock_pending")
        locked = packed(tx, query, names=Bulk(lists_of(uids)), properties=properties, model=self.model)
        done = Bulk(row["node"] for row in locked if row["deleted"] or self._text(row).fresh)
        if done:
            rows(tx, self._statement("unmark_pending"), nodes=done)
        return len(done)

    def pending_page(self, after: Place | None = None, limit: int = PAGE) -> list[EntityText]:
        """The next entities of the outbox after this key, in the order of the key: texts first, then numbers."""
        return self._page("pending_page", after, limit)

    def entities_page(self, after: Place | None = None, limit: int = PAGE) -> list[EntityText]:
        """The next current entities after this key, in the order of the key."""
        return self._page("entities_page", after, limit)

    def get_entities_without_embeddings(
        self, limit: int = 10, after: Place | None = None
    ) -> list[EntityText]:
        """The next current entities without a vector after this key, at most `limit`, in the order of the key.

        `after`: the `key` of the last one of the page before, a text or a number as it is stored.

        The outbox is read by an index of its own; entities of other programs are looked for along the key index,
        no further than the outbox gave enough. So all pages together walk once over the entities.
        """
        marked = self._page("missing_pending_page", after, limit)
        until = marked[-1].key if len(marked) == limit else None
        others: list[EntityText] = []
        at: Place | None = BEFORE_TEXTS if after is None else after
        while at is not None and (until is None or order(at) < order(until)) and len(others) < limit:
            step = self._walk(
                "missing_page", at, STEPS, until=until, limit=limit - len(others), pending=False
            )
            others += step.texts
            at = step.last
        return sorted((*marked, *others), key=lambda text: order(text.key))[:limit]

    def walk_entities(self, after: Place | None, steps: int = PAGE) -> Walk:
        """Goes `steps` entities on after this key, in the order of the key, and reads the current ones."""
        return self._walk("entities_page", after, steps)

    def walk_missing(self, after: Place | None, steps: int = STEPS, *, pending: bool = True) -> Walk:
        """As `walk_entities`; reads the current ones that have no vector. `pending` False: none of the outbox."""
        return self._walk("missing_page", after, steps, pending=pending)

    def _walk(
        self,
        name: str,
        after: Place | None,
        steps: int,
        *,
        until: Place | None = None,
        limit: int = EVERY,
        **parameters: Any,
    ) -> Walk:
        """One step of a way, which holds keys of one kind; no further than `until`."""
        start = BEFORE_TEXTS if after is None else after
        last = self._key_after(start, steps)
        end = end_of(start) if last is None else last
        if until is not None:
            end = min(end, until, key=order)
        texts = self._texts(name, after=start, until=end, limit=limit, **parameters)
        if last is None and isinstance(start, str) and self._key_after(BEFORE_NUMBERS, 1) is not None:
            last = BEFORE_NUMBERS
        return Walk(texts, last)

    def _key_after(self, after: Place, steps: int) -> Place | None:
        """The key that stands so many entities further on, of the same kind; None: there are fewer."""
        found = self.database.read(self._statement("key_after"), after=after, skip=steps - 1)
        return found[0]["key"] if found else None

    def _page(self, name: str, after: Place | None, limit: int) -> list[EntityText]:
        start = BEFORE_TEXTS if after is None else after
        found = self._texts(name, after=start, until=end_of(start), limit=limit)
        if isinstance(start, str) and len(found) < limit:
            left = limit - len(found)
            found += self._texts(name, after=BEFORE_NUMBERS, until=end_of(BEFORE_NUMBERS), limit=left)
        return found

    def texts_of_nodes(self, nodes: Sequence[int]) -> list[EntityText]:
        """The texts of the current entities among the nodes of these internal numbers."""
        return self._texts("changed_texts", nodes=Bulk(nodes)) if nodes else []

    def known(self) -> Known:
        """What is known of the entities at once, at any size."""
        return known(self.database.read, self.label)

    def coverage(self) -> Coverage:
        """How much of the graph has a vector. Walks over the entities: about two seconds for a million."""
        row = self.database.read(self._statement("coverage"), model=self.model)[0]
        entities, missing, fresh = row["entities"], row["missing"], row["fresh"]
        # The counts are read one after the other: under writes they may disagree by a few.
        stale = max(0, entities - missing - fresh)
        return Coverage(entities=entities, fresh=fresh, stale=stale, missing=missing)

    def without_key(self, *, pending: bool = False) -> int:
        """How many current entities (of the outbox: `pending`) have no usable key and are never embedded."""
        among = OUTBOX_LABEL if pending else None
        return without_key(self.database, self.label, self.key, among=among, deleted=self.deleted)

    def _statement(self, name: str, **identifiers: str) -> str:
        names = {"label": self.label, "key": self.key, **self.vector.identifiers, **self.deleted.identifiers}
        return statement(f"graph/{name}", **names, **identifiers)

    def _texts(self, name: str, *, leader: bool = False, **parameters: Any) -> list[EntityText]:
        sources = list(self.recipe.properties)
        found = self.database.read_packed(
            self._statement(name), leader=leader, properties=sources, model=self.model, **parameters
        )
        return [self._text(row) for row in found]

    def _text(self, row: Row) -> EntityText:
        """The text behind one row of a statement that returns key, source, width, hash and model.

        A vector of another width than the model's is not found by search, whatever its hash says.
        """
        text = self.recipe.text_of(row["source"])
        digest = content_hash(text)
        return EntityText(
            uid=named(row["key"]),
            key=row["key"],
            text=text,
            content_hash=digest,
            source=tuple(row["source"]),
            fresh=row["width"] == self.dimensions and row["hash"] == digest and row["model"] == self.model,
            deleted=row.get("deleted", False),
            known=bool(row.get("known")),
            embedded=row["width"] is not None,
            embedded_at=epoch_ms(row.get("at")),
        )


def _decimal(name: str) -> float | None:
    """The number that a name looks like, if it is not one that names an entity."""
    try:
        return float(name) if number_of(name) is None else None
    except ValueError:
        return None


def _name_in(row: Mapping[str, Any]) -> str:
    """The name of the entity that a row of a statement's parameter is for."""
    return str(row["keys"][0])


def _survives(value: Any) -> bool:
    """True if a value that was read equals the stored one when the server compares them.

    NaN equals nothing, 1 equals 1.0 (another text), and a time in a zone comes back as another value.
    """
    if isinstance(value, list | tuple):
        return type(value) in (list, tuple) and all(isinstance(item, str) for item in value)
    return value is None or isinstance(value, str | bool)
