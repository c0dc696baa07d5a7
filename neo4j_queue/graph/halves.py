"""The two halves of a search: the vector index and the full-text index of one graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neo4j import Record

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.graph.fusion import DEPTH
from neo4j_queue.graph.lucene import all_of
from neo4j_queue.graph.search_request import Filters
from neo4j_queue.names import DELETED, VECTOR, DeletedProperty, VectorProperty

# The indexes know nothing of soft-deleted entities, other models and filters, and that of vectors is approximate:
# asked for few it walks few neighbours, and after many updates misses the best of all. So they are asked for more than
# wanted, and for four times as many while too few of them count.
EXTRA = 100
GROWTH = 4
# A walk over this many neighbours takes a good part of a second; an index with more dead entries than that around one
# query needs a clean-up, not a longer search.
MAX_CANDIDATES = 20_000
# One statement of a search; an index that is not in the memory of its server yet takes seconds.
STATEMENT_S = 10.0


@dataclass(frozen=True, slots=True)
class Half:
    """What one index found: scores by element id, best first. `candidates` were looked at.

    `current`: candidates that are entities with a vector of the model, whatever the filters say (of vectors only).
    `cut`: no more were looked at, although fewer than wanted were found. `all_words`: those that have all words of the
    query (of words only, see `Halves.having_all`).
    """

    scores: Mapping[str, float]
    candidates: int = 0
    current: int = 0
    cut: bool = False
    all_words: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Halves:
    """Asks the indexes. `model`: the one whose vectors count.

    Each answers as many as are there of the candidates, up to what is fused, and asks for more candidates only while
    fewer than `limit` are found.
    """

    database: Database
    model: str
    label: str = "Entity"
    key: str = "name"
    vector: VectorProperty = VECTOR
    deleted: DeletedProperty = DELETED

    def nearest(self, index: str, vector: Sequence[float], limit: int, filters: Filters) -> Half:
        """The entities whose vectors are nearest. Raises the driver's ClientError without the index."""
        return self._asked(
            "graph/nearest", limit, filters, index=index, vector=list(vector), model=self.model
        )

    def by_words(self, index: str, query: str, limit: int, filters: Filters) -> Half:
        """The entities that a query in Lucene syntax finds. Raises the driver's ClientError without the index, and for
        what is no such syntax."""
        return self._asked("graph/by_words", limit, filters, index=index, words=query)

    def having_all(self, index: str, words: Sequence[str], limit: int, filters: Filters) -> frozenset[str]:
        """The nodes of the best entities that have all of the words."""
        return frozenset(self.by_words(index, all_of(words), limit, filters).scores)

    def found(self, nodes: Sequence[str]) -> list[Record]:
        """The entities of these nodes, as they are now; those that have gone are left out."""
        if not nodes:
            return []
        query = self._statement("graph/found")
        return self.database.ask(query, timeout_s=STATEMENT_S, nodes=list(nodes))

    def _asked(self, name: str, limit: int, filters: Filters, **parameters: Any) -> Half:
        query = self._statement(name)
        candidates = limit + EXTRA
        while True:
            (row,) = self.database.ask(
                query,
                timeout_s=STATEMENT_S,
                candidates=candidates,
                limit=max(limit, DEPTH),
                **filters.parameters,
                **parameters,
            )
            scores = {hit["node"]: hit["score"] for hit in row["hits"]}
            exhausted = row["found"] < candidates
            if len(scores) >= limit or exhausted or candidates >= MAX_CANDIDATES:
                cut = len(scores) < limit and not exhausted
                return Half(scores, row["found"], row.get("current") or 0, cut)
            candidates = min(candidates * GROWTH, MAX_CANDIDATES)

    def _statement(self, name: str) -> str:
        names = {"label": self.label, "key": self.key, **self.vector.identifiers, **self.deleted.identifiers}
        return statement(name, **names)
