"""Where a text is cut that is longer than the model takes, to its beginning or into parts.

Which tokenizer a server has is not known here, so a cut counts with care: a text that is cut a little early has a good
vector, one that is refused has none.
"""

from bisect import bisect_right

import regex

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
# A sentence that ends in the last third of a part is a better place still: a part that is a third shorter costs little,
# and half a sentence pulls the vector away from what the whole one says.
SENTENCE_END = regex.compile(r"""[.!?…]["'”’»)\]]*(?=\s)|[。！？]|\n""")
# A character as readers see it: an extended grapheme cluster of Unicode (UAX 29).
CHARACTER = regex.compile(r"\X")
# How far back from the end clusters are looked for. Those that people write have at most some thirty code points; the
# flags of all countries in a row have 516, and their pairs are right only when counted from the first.
WINDOW = 1_000


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


def parts(text: str, limit: int, most: int) -> tuple[list[str], bool]:
    """The text in at most `most` parts of at most `limit` cautious tokens, and whether that is all of it.

    A part ends with a sentence or a word if one ends near, and in no case within a character.
    """
    found: list[str] = []
    rest = text.strip()
    while rest and len(found) < most:
        # More than fits, whatever its characters are: to count all of a long text for each of its parts would cost the
        # square of its length.
        part = cut(rest[: limit * QUARTERS + SPACE_WITHIN], limit)
        if len(part) < len(rest):
            part = _whole_sentences(part)
        found.append(part)
        rest = rest[len(part) :].lstrip()
    return found, not rest


def _whole_sentences(text: str) -> str:
    """The text up to its last sentence that ends, if that is in the last third."""
    ends = [match.end() for match in SENTENCE_END.finditer(f"{text} ", len(text) * 2 // 3)]
    return text[: ends[-1]].rstrip() if ends else text


def _whole_characters(text: str, end: int) -> int:
    """The nearest place at or before `end` where a reader sees a character begin; `end` if none is in the window."""
    begin = max(0, end - WINDOW)
    # A slice, since `\X` looks back as far as the text goes, and a text may have megabytes. It holds the code point at
    # `end` too, which decides whether the last cluster goes on there.
    last = max(cluster.start() for cluster in CHARACTER.finditer(text[begin : end + 1]))
    return begin + last if last else end
