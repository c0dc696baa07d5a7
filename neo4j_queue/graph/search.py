"""Semantic search: the entities whose vectors are nearest to the query's."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.embedders import Embedder, describe, open_embedder, profile_of
from neo4j_queue.embedders.cut import MOST_PER_CHARACTER, cut
from neo4j_queue.embedders.vector_cache import MEGABYTE, VectorCache
from neo4j_queue.errors import TemporarilyUnavailable
from neo4j_queue.graph.booking import BookQuery, BoundedBooking
from neo4j_queue.graph.keys import named
from neo4j_queue.names import DELETED, VECTOR, DeletedProperty, VectorProperty
from neo4j_queue.settings import Settings
from neo4j_queue.text import content_hash, estimate_tokens

# The index knows nothing of soft-deleted entities and other models, and it is approximate: asked for few it walks few
# neighbours, and after many updates misses the best of all. So it is asked for more than wanted, and for four times as
# many while too few of them count.
EXTRA = 100
GROWTH = 4
# A walk over this many neighbours takes a good part of a second; an index with more dead entries than that
# around one query needs a clean-up, not a longer search.
MAX_CANDIDATES = 20_000
MAX_LIMIT = 1_000

EmbedQuery = Callable[[str], Sequence[float]]

# How often a search that waits for the rate limit asks again.
ASK_AGAIN_S = 0.1
# Their requests cost nothing and have no limit.
IN_PROCESS = frozenset({"local", "mock"})


class QueryEmbedder:
    """Embeds queries with the model that the settings name; opens it at the first one.

    A query that was asked before is answered from memory, and one that another thread is asking for is asked once.
    With `book` (`EmbedQueue.book_query`) a query counts against the rate limit that all workers share. It goes first:
    while people search, backfills leave room for them. A query that is longer than the model takes is cut like a text.
    """

    def __init__(
        self,
        settings: Settings,
        book: BookQuery | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._book = None if book is None else BoundedBooking(book, monotonic=monotonic)
        self._monotonic = monotonic
        self._sleep = sleep
        self._cache = VectorCache(settings.embed_cache_mb * MEGABYTE)
        self._embedder: Embedder | None = None

    def __call__(self, query: str) -> Sequence[float]:
        """The vector of a query: one provider request at the most. Raises what the provider's client raises, and
        `TemporarilyUnavailable` when the rate limit has no room for `EMBED_REQUEST_TIMEOUT_MS`.
        """
        spec = describe(self._settings)
        query = self._fitted(query)
        key = (spec.model, spec.dimensions, content_hash(query))
        with self._cache.flight([key]) as flight:
            if key in flight.found:
                return flight.found[key]
            late = flight.wait(self._settings.embed_request_timeout_ms / 1000)
            vector = late.get(key) or self._ask(query)
            flight.land({key: vector})
            return vector

    def _fitted(self, query: str) -> str:
        """The query, or its beginning as long as the model takes: a page of text would be refused."""
        limit = profile_of(self._settings).max_input_tokens
        return query if len(query) * MOST_PER_CHARACTER <= limit else cut(query, limit)

    def _ask(self, query: str) -> Sequence[float]:
        if self._embedder is None:
            self._embedder = open_embedder(self._settings)
        if self._book is not None and describe(self._settings).provider not in IN_PROCESS:
            self._wait_for_room(self._book, estimate_tokens(query))
        return self._embedder.embed([query], query=True).vectors[0]

    def _wait_for_room(self, book: BoundedBooking, est_tokens: int) -> None:
        patience_s = self._settings.embed_request_timeout_ms / 1000
        deadline = self._monotonic() + patience_s
        while not book(est_tokens):
            if self._monotonic() >= deadline:
                raise TemporarilyUnavailable(
                    f"the rate limit of the embedding provider left no room for a search in {patience_s:.0f} s"
                )
            self._sleep(ASK_AGAIN_S)


@dataclass(frozen=True, slots=True)
class Hit:
    """A found entity. `score` is the index's similarity, 0 to 1, 1 is the query's own vector."""

    uid: str
    score: float
    labels: tuple[str, ...]
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class VectorSearch:
    """The vector index of one graph, for one model."""

    database: Database
    model: str
    index: str
    label: str = "Entity"
    key: str = "name"
    vector: VectorProperty = VECTOR
    deleted: DeletedProperty = DELETED

    def nearest(self, vector: Sequence[float], limit: int = 10) -> list[Hit]:
        """At most `limit` current entities, best first. Raises the driver's ClientError without the index."""
        limit = max(1, min(limit, MAX_LIMIT))
        names = {"label": self.label, "key": self.key, **self.vector.identifiers, **self.deleted.identifiers}
        query = statement("graph/nearest", **names)
        candidates = limit + EXTRA
        while True:
            row = self.database.read(
                query,
                index=self.index,
                candidates=candidates,
                limit=limit,
                vector=list(vector),
                model=self.model,
            )[0]
            exhausted = row["found"] < candidates or candidates >= MAX_CANDIDATES
            if len(row["hits"]) == limit or exhausted:
                return [_hit(found, self.vector.name) for found in row["hits"]]
            candidates = min(candidates * GROWTH, MAX_CANDIDATES)


def _hit(found: Mapping[str, Any], vector: str) -> Hit:
    properties = {name: value for name, value in found["properties"].items() if name != vector}
    return Hit(named(found["key"]), found["score"], tuple(found["labels"]), properties)
