"""One order out of two: weighted reciprocal rank fusion.

Similarities of vectors and scores of words have no common scale, but places have. Each half gives an entity
`weight / (RANK + place)`; the sum is divided by the most that there can be, so that scores are from 0 to 1.

An entity that has all words of the query counts as much by its words as by its meaning: so a name that is typed is
found, also where the model does not know it. Some of the words are in many texts, and say less than the meaning does.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

# The first places are what a person looks at: the tenth counts for 0.55 of the first. With the usual 60 it would count
# for 0.87, and two entities that are far behind in both halves would go before the first one of the better half.
RANK = 10
SEMANTIC_WEIGHT = 1.0
ALL_WORDS_WEIGHT = 1.0
# Measured, as RANK and DEPTH, on two sets of questions about the demo's graph (docs/how-to/search.md has the figures).
SOME_WORDS_WEIGHT = 0.3
# How many of each half are fused, as far as they are among the candidates: an entity in the first places of one may be
# far behind in the other.
DEPTH = 100


@dataclass(frozen=True, slots=True)
class Fused:
    """A node (element id), its fused score, and what each half gave it; None = that half did not find it."""

    node: str
    score: float
    semantic: float | None
    keyword: float | None


def fuse(
    semantic: Mapping[str, float], keyword: Mapping[str, float], all_words: Collection[str]
) -> list[Fused]:
    """Both halves, each of which has its nodes in their order, best first. `all_words`: nodes that have them all."""
    scores: dict[str, float] = {}
    for place, node in enumerate(semantic, 1):
        scores[node] = SEMANTIC_WEIGHT / (RANK + place)
    for place, node in enumerate(keyword, 1):
        weight = ALL_WORDS_WEIGHT if node in all_words else SOME_WORDS_WEIGHT
        scores[node] = scores.get(node, 0.0) + weight / (RANK + place)
    most = (SEMANTIC_WEIGHT + ALL_WORDS_WEIGHT) / (RANK + 1)
    # Equal ones keep the order in which they came, those of the semantic half first.
    ordered = sorted(scores, key=scores.__getitem__, reverse=True)
    return [Fused(node, scores[node] / most, semantic.get(node), keyword.get(node)) for node in ordered]


def of_meaning(found: Mapping[str, float]) -> list[Fused]:
    """The semantic half alone: the score is the similarity."""
    return [Fused(node, score, score, None) for node, score in found.items()]


def of_words(found: Mapping[str, float]) -> list[Fused]:
    """The keyword half alone: the score is the share of what the best one has, since Lucene's has no upper end."""
    best = next(iter(found.values()), 1.0)
    return [Fused(node, score / best, None, score) for node, score in found.items()]
