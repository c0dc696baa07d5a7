"""What a search answers."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from neo4j_queue.graph.search_request import SearchMode


@dataclass(frozen=True, slots=True)
class Hit:
    """A found entity, without its vector.

    score: what hits are ordered by, 0 to 1. Its scale is that of the way that was gone (`SearchAnswer.search_type`): of
    a semantic search the similarity, of a keyword search the share of what the best hit has, of a hybrid one the fused
    places, 1 for what is first by both and has all words.
    semantic: the similarity of its vector, 0 to 1, 1 is the query's own. keyword: Lucene's score, without an upper end.
    None: that half did not find it.
    stale: it has no vector of its text as it is now, by the configured model.
    """

    uid: str
    score: float
    semantic: float | None
    keyword: float | None
    stale: bool
    labels: tuple[str, ...]
    properties: Mapping[str, Any]

    @property
    def found_by(self) -> tuple[str, ...]:
        """The halves that found it: `semantic`, `keyword`, or both."""
        halves = ((SearchMode.SEMANTIC, self.semantic), (SearchMode.KEYWORD, self.keyword))
        return tuple(half.value for half, score in halves if score is not None)


@dataclass(frozen=True, slots=True)
class SearchCoverage:
    """What was searched, as far as the server knows it without looking at the entities.

    entities: nodes of the label, soft-deleted ones too. pending: those whose change waits for its vector
    (where more than 10,000 were to be looked at, at most so many).
    vector_index, text_index: the indexes that were asked; None = not asked.
    cut: fewer than `limit` passed the filters among the 20,000 nearest, so more may be there.
    """

    entities: int
    pending: int
    vector_index: str | None
    text_index: str | None
    cut: bool


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Hits, best first, and how they were found. It is a sequence of its hits.

    search_type: the way that was gone: `semantic`, `keyword` or `hybrid`.
    fallback_reason: why it is not the one that was asked for, in one line; None: it is.
    """

    hits: tuple[Hit, ...]
    search_type: SearchMode
    fallback_reason: str | None
    coverage: SearchCoverage

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, at: int) -> Hit:
        return self.hits[at]

    def as_dict(self) -> dict[str, Any]:
        """The answer for JSON: what command line and tools give. Values of properties are as the driver reads them."""
        return {
            "search_type": self.search_type.value,
            "fallback_reason": self.fallback_reason,
            "coverage": asdict(self.coverage),
            "hits": [
                {
                    "entity": hit.uid,
                    "score": hit.score,
                    "semantic": hit.semantic,
                    "keyword": hit.keyword,
                    "found_by": list(hit.found_by),
                    "stale": hit.stale,
                    "labels": list(hit.labels),
                    "properties": dict(hit.properties),
                }
                for hit in self.hits
            ],
        }
