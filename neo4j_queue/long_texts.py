"""Texts that are longer than the model takes: cut at its limit, or refused, before a request is spent on them.

Which tokenizer a server has is not known here, so a cut counts with care: a text that is cut a little early has a good
vector, one that is refused has none. The text's hash, version and freshness remain those of the whole text.
"""

import unicodedata
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import takewhile

from neo4j_queue.entities import EntityText
from neo4j_queue.errors import UnembeddableText
from neo4j_queue.text import estimate_tokens

# Quarters of a token for one character, by the bytes of its UTF-8 form. Measured with a vocabulary of 32,000 entries
# (larger ones charge less): prose 0.27 tokens per letter, digits and signs 0.6 to 1, Greek, Hebrew and Arabic 0.9 to 1,
# Chinese, Japanese and Korean 1.2 to 1.4, emoji 3.5. Never below a quarter of a token per byte, so that no cut text
# is above what a check of the bytes refuses.
LETTER, SIGN, TWO_BYTES, THREE_BYTES, FOUR_BYTES = 1, 2, 4, 5, 12
QUARTERS = 4
MOST_PER_CHARACTER = FOUR_BYTES // QUARTERS

_ALL = bytes(range(256))
_LETTERS = bytes(byte for byte in range(128) if chr(byte).isalpha() or chr(byte).isspace())
_SIGNS = bytes(byte for byte in range(128) if byte not in _LETTERS)
_CLASSES = (
    (_LETTERS, LETTER),
    (_SIGNS, SIGN),
    (bytes(range(0xC0, 0xE0)), TWO_BYTES),
    (bytes(range(0xE0, 0xF0)), THREE_BYTES),
    (bytes(range(0xF0, 0xF8)), FOUR_BYTES),
)
# What `bytes.translate` deletes to leave one class (continuation bytes are in none): counting runs at the speed of C.
_OTHERS = [(_ALL.translate(None, members), weight) for members, weight in _CLASSES]

# A space this near to the end is a better place to cut than the middle of a word; words are shorter than this.
SPACE_WITHIN = 100
# No character that people write has more marks on it; whoever sends more gets a cut in the middle of them.
MARKS_MAX = 64

_JOINER = "\u200d"
# The combining class of the signs that join two consonants in the scripts of India.
_VIRAMA = 9
# Vowels and final consonants that continue a Korean syllable, skin tones, letters of a flag's region, flags.
_MEDIAL_JAMO = range(0x1160, 0x1200)
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_TAGS = range(0xE0020, 0xE0080)
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)


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


def cautious_tokens(text: str) -> int:
    """The most tokens that a text is likely to have, by the kinds of its characters."""
    encoded = text.encode("utf-8", "replace")
    quarters = sum(len(encoded.translate(None, others)) * weight for others, weight in _OTHERS)
    return -(-quarters // QUARTERS)


def cut(text: str, limit: int) -> str:
    """The text, or its beginning of at most `limit` cautious tokens, up to a space if one is near the end.

    Nothing that is one character to a reader is parted: no letter from its accents, no emoji from its parts.
    """
    if cautious_tokens(text) <= limit:
        return text
    # A text that begins with nothing but space would be cut to nothing.
    body = text.lstrip()
    end = bisect_right(range(len(body) + 1), limit, key=lambda n: cautious_tokens(body[:n])) - 1
    if end >= len(body):
        return body
    space = next((at for at in range(end, max(0, end - SPACE_WITHIN), -1) if body[at].isspace()), None)
    return body[: space or _whole_characters(body, end)].rstrip()


def _whole_characters(text: str, end: int) -> int:
    """The nearest place at or before `end` where a character as people see it begins; `end` if there is none near."""
    for at in range(end, max(0, end - MARKS_MAX), -1):
        if not _continues(text, at):
            return at
    return end


def _continues(text: str, at: int) -> bool:
    """Whether the character at `at` belongs to the one before it."""
    here, before = text[at], text[at - 1]
    code = ord(here)
    if unicodedata.category(here).startswith("M") or here == _JOINER or before == _JOINER:
        return True
    if unicodedata.combining(before) == _VIRAMA:
        return True
    if code in _MEDIAL_JAMO or code in _SKIN_TONES or code in _TAGS:
        return True
    if code not in _FLAG_LETTERS:
        return False
    # Flags are pairs of letters: the second of a pair follows an odd number of them.
    letters = takewhile(
        lambda i: ord(text[i]) in _FLAG_LETTERS, range(at - 1, max(-1, at - 1 - MARKS_MAX), -1)
    )
    return sum(1 for _ in letters) % 2 == 1
