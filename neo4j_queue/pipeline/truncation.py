"""Texts that are longer than the model takes: cut at its limit, embedded in parts, or refused.

The hash, version and freshness of a text remain those of the whole text.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from neo4j_queue.embedders.cut import MOST_PER_CHARACTER, cautious_tokens, cut, parts
from neo4j_queue.errors import UnembeddableText
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.text import estimate_tokens

# A mean over more parts than this says nothing any more, and each one costs an input.
MOST_PARTS = 100


class LongText(StrEnum):
    """What becomes of a text that is longer than the model takes: the words of `EMBED_LONG_TEXTS`."""

    TRUNCATE = "truncate"  # its beginning is embedded
    FAIL = "fail"  # its job fails
    AVERAGE = "average"  # its parts are embedded, and the mean of their vectors is its vector


@dataclass(frozen=True, slots=True)
class LongTexts:
    """What becomes of a text over `limit` model tokens."""

    limit: int
    policy: str = LongText.TRUNCATE

    def fitted(self, text: EntityText) -> EntityText:
        """The text as it goes to the provider: itself, its beginning, or its `parts`; `truncated` if that is not all.

        Raises UnembeddableText for one that is too long, when it is to fail: only if the plain estimate says so, for a
        text that may fit is the provider's to judge.
        """
        if len(text.text) * MOST_PER_CHARACTER <= self.limit:
            return text
        if self.policy == LongText.AVERAGE:
            return self._in_parts(text)
        if self.policy == LongText.TRUNCATE:
            kept = cut(text.text, self.limit)
            return text if kept == text.text else replace(text, text=kept, truncated=True)
        tokens = estimate_tokens(text.text)
        if tokens > self.limit:
            raise UnembeddableText(
                f"the text is too long: about {tokens} tokens, the model takes {self.limit} "
                "(EMBED_LONG_TEXTS=truncate embeds its beginning, average its parts)"
            )
        return text

    def _in_parts(self, text: EntityText) -> EntityText:
        if cautious_tokens(text.text) <= self.limit:
            return text
        found, whole = parts(text.text, self.limit, MOST_PARTS)
        return replace(text, parts=tuple(found), truncated=not whole)


def mean(vectors: Sequence[Sequence[float]], lengths: Sequence[int]) -> list[float]:
    """The mean of the vectors of a text's parts, weighted by their lengths, of length 1."""
    sums = [0.0] * len(vectors[0])
    for vector, length in zip(vectors, lengths, strict=True):
        sums = [total + length * number for total, number in zip(sums, vector, strict=True)]
    norm = math.sqrt(math.fsum(number * number for number in sums))
    if not norm:
        # Parts that say the opposite leave nothing, which no index can hold: the longest one stands for the text.
        return list(vectors[max(range(len(lengths)), key=lengths.__getitem__)])
    return [number / norm for number in sums]
