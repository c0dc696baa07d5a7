"""Semantic search: the entities whose vectors are nearest to the query's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.embedders import Embedder, open_embedder
from neo4j_queue.settings import Settings

# The index knows nothing of soft-deleted entities and other models: it is asked for some more than wanted, and
# four times as many while too few of them count.
EXTRA = 20
GROWTH = 4
# A walk over this many neighbours takes a good part of a second; an index with more dead entries than that
# around one query needs a clean-up, not a longer search.
MAX_CANDIDATES = 20_000
MAX_LIMIT = 1_000

EmbedQuery = Callable[[str], Sequence[float]]


class QueryEmbedder:
    """Embeds queries with the model that the settings name; opens it at the first one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._embedder: Embedder | None = None

    def __call__(self, query: str) -> Sequence[float]:
        """The vector of a query: one provider request. Raises what the provider's client raises."""
        if self._embedder is None:
            self._embedder = open_embedder(self._settings)
        return self._embedder.embed([query]).vectors[0]


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

    def nearest(self, vector: Sequence[float], limit: int = 10) -> list[Hit]:
        """At most `limit` current entities, best first. Raises the driver's ClientError without the index."""
        limit = max(1, min(limit, MAX_LIMIT))
        query = statement("graph/nearest", label=self.label, key=self.key)
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
                return [_hit(found) for found in row["hits"]]
            candidates = min(candidates * GROWTH, MAX_CANDIDATES)


def _hit(found: Mapping[str, Any]) -> Hit:
    properties = {name: value for name, value in found["properties"].items() if name != "embedding"}
    return Hit(found["uid"], found["score"], tuple(found["labels"]), properties)
