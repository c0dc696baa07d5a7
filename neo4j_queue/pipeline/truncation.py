"""Texts that are longer than the model takes: cut at its limit, or refused, before a request is spent on them.

The hash, version and freshness of a text remain those of the whole text.
"""

from dataclasses import dataclass, replace

from neo4j_queue.embedders.cut import MOST_PER_CHARACTER, cut
from neo4j_queue.errors import UnembeddableText
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.text import estimate_tokens


@dataclass(frozen=True, slots=True)
class LongTexts:
    """What becomes of a text over `limit` model tokens: cut (`EMBED_LONG_TEXTS=truncate`), or refused (`fail`)."""

    limit: int
    cut: bool = True

    def fitted(self, text: EntityText) -> EntityText:
        """The text as it goes to the provider: itself, or its beginning with `truncated` set.

        Raises UnembeddableText for one that is too long, when it is not to be cut: only if the plain estimate says
        so, for a text that may fit is the provider's to judge.
        """
        if len(text.text) * MOST_PER_CHARACTER <= self.limit:
            return text
        if self.cut:
            kept = cut(text.text, self.limit)
            return text if kept == text.text else replace(text, text=kept, truncated=True)
        tokens = estimate_tokens(text.text)
        if tokens > self.limit:
            raise UnembeddableText(
                f"the text is too long: about {tokens} tokens, the model takes {self.limit} "
                "(EMBED_LONG_TEXTS=truncate embeds its beginning)"
            )
        return text
