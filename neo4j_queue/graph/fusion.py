"""One order out of two: reciprocal rank fusion.

Similarities of vectors and scores of words have no common scale, but places have. Each half gives an entity
`weight / (RANK + place)`; the sum is divided by what the first of both halves gets, so that scores are from 0 to 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass

# The constant of the method's authors (Cormack, Clarke and Büttcher, 2009): the tenth place still counts for 0.87 of
# the first, so that what both halves find goes before what one of them finds first.
RANK = 60
# What the halves count for.
SEMANTIC_WEIGHT = 1.0
KEYWORD_WEIGHT = 1.0
# How many of each half are fused at the least: an entity in the first places of one may be far behind in the other.
DEPTH = 50


@dataclass(frozen=True, slots=True)
class Fused:
    """A node (element id), its fused score, and what each half gave it; None = that half did not find it."""

    node: str
    score: float
    semantic: float | None
    keyword: float | None


def fuse(semantic: Mapping[str, float], keyword: Mapping[str, float]) -> list[Fused]:
    """Both halves, each of which has its nodes in their order, best first."""
    scores: dict[str, float] = {}
    for half, weight in ((semantic, SEMANTIC_WEIGHT), (keyword, KEYWORD_WEIGHT)):
        for place, node in enumerate(half, 1):
            scores[node] = scores.get(node, 0.0) + weight / (RANK + place)
    most = (SEMANTIC_WEIGHT + KEYWORD_WEIGHT) / (RANK + 1)
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
