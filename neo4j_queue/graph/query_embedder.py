"""The vector of a search's query: asked for once, within the rate limit, and within the time that a person waits."""

import time
from collections.abc import Callable, Sequence

from neo4j_queue.embedders import Embedder, describe, open_embedder, profile_of
from neo4j_queue.embedders.cut import MOST_PER_CHARACTER, cut
from neo4j_queue.embedders.vector_cache import MEGABYTE, Key, VectorCache
from neo4j_queue.errors import TemporarilyUnavailable
from neo4j_queue.graph.booking import BookQuery, BoundedBooking
from neo4j_queue.in_time import InTime
from neo4j_queue.settings import Settings
from neo4j_queue.text import content_hash, estimate_tokens

EmbedQuery = Callable[[str], Sequence[float]]

# How often a search that waits for the rate limit asks again.
ASK_AGAIN_S = 0.1
# Their requests cost nothing, have no limit, and no network to wait for.
IN_PROCESS = frozenset({"local", "mock"})
# An error that comes with the end of the deadline says more than "no answer": it gets a moment to be heard.
GRACE_S = 0.2


class QueryEmbedder:
    """Embeds queries with the model that the settings name; opens it at the first one.

    A query that was asked before is answered from memory, and one that another thread is asking for is asked once.
    With `book` (`EmbedQueue.book_query`) a query counts against the rate limit that all workers share. It goes first:
    while people search, backfills leave room for them. A query that is longer than the model takes is cut like a text.

    The wait for the rate limit and the request take `EMBED_SEARCH_TIMEOUT_MS` together. An answer that comes later is
    kept for the next search for the same.
    """

    def __init__(
        self,
        settings: Settings,
        book: BookQuery | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        patience_ms = min(settings.embed_search_timeout_ms, settings.embed_request_timeout_ms)
        self._settings = settings.model_copy(update={"embed_request_timeout_ms": patience_ms})
        self._patience_s = patience_ms / 1000
        self._book = None if book is None else BoundedBooking(book, monotonic=monotonic)
        self._monotonic = monotonic
        self._sleep = sleep
        self._cache = VectorCache(settings.embed_cache_mb * MEGABYTE)
        self._in_time = InTime("the embedding provider")
        self._embedder: Embedder | None = None

    def __call__(self, query: str) -> Sequence[float]:
        """The vector of a query: one provider request at the most.

        Raises what the provider's client raises, and `TemporarilyUnavailable` if the rate limit has no room or the
        provider gives no answer in time.
        """
        spec = describe(self._settings)
        query = self._fitted(query)
        key = (spec.model, spec.dimensions, content_hash(query))
        embedder = self._opened()
        if spec.provider in IN_PROCESS:
            return self._vector(key, lambda: embedder.embed([query], query=True).vectors[0])
        # Imports take a second, and are no sign of the provider's.
        embedder.warm_up()

        def ask() -> Sequence[float]:
            if self._book is not None:
                self._wait_for_room(self._book, estimate_tokens(query))
            return embedder.embed([query], query=True).vectors[0]

        return self._in_time(lambda: self._vector(key, ask), self._patience_s + GRACE_S)

    def _vector(self, key: Key, ask: Callable[[], Sequence[float]]) -> Sequence[float]:
        with self._cache.flight([key]) as flight:
            if key in flight.found:
                return flight.found[key]
            late = flight.wait(self._patience_s)
            vector = late.get(key) or ask()
            flight.land({key: vector})
            return vector

    def _fitted(self, query: str) -> str:
        """The query, or its beginning as long as the model takes: a page of text would be refused."""
        limit = profile_of(self._settings).max_input_tokens
        return query if len(query) * MOST_PER_CHARACTER <= limit else cut(query, limit)

    def _opened(self) -> Embedder:
        if self._embedder is None:
            self._embedder = open_embedder(self._settings)
        return self._embedder

    def _wait_for_room(self, book: BoundedBooking, est_tokens: int) -> None:
        deadline = self._monotonic() + self._patience_s
        while not book(est_tokens):
            if self._monotonic() >= deadline:
                raise TemporarilyUnavailable(
                    "the rate limit of the embedding provider left no room for a search in "
                    f"{self._patience_s:g} s"
                )
            self._sleep(ASK_AGAIN_S)
