"""A query in the syntax of the full-text index, out of what a person typed."""

import re
from collections.abc import Iterable

# The index refuses a query of more clauses, and each word is one for each property. (1,024 is the server's bound.)
CLAUSES_MOST = 1_000
# Beyond this a query is a page of text: its words are searched from the beginning, as its meaning is.
WORDS_MOST = 100

# Lucene's operators. The analyzer makes words of them like of any others, once the parser has taken them for words.
OPERATORS = frozenset({"AND", "OR", "NOT"})
_SPECIAL = re.compile(r"[!-/:-@\[-`{-~]")
# What the analyzer may take apart: letters and digits of ASCII stand together, of others each may be a word (CJK).
_PARTS = re.compile(r"[A-Za-z0-9]+|[^\x00-\x7f]")


def words_of(text: str, properties: int) -> list[str]:
    """The words of a text, each as the parser reads it back unchanged; as many as so many properties can be searched
    for at once. Side by side they are a query that each of them answers."""
    left = CLAUSES_MOST // max(1, properties)
    chosen: list[str] = []
    for word in dict.fromkeys(text.split()):
        parts = len(_PARTS.findall(word))
        if not parts:
            continue
        if parts > left:
            # Without blanks, a page is one word.
            word = _beginning(word, left)
            parts = left
        if not word or len(chosen) == WORDS_MOST:
            break
        chosen.append(escaped(word))
        left -= parts
    return chosen


def all_of(words: Iterable[str]) -> str:
    """The query that only a text with all of the words answers."""
    return " ".join(f"+{word}" for word in words)


def escaped(word: str) -> str:
    """A word without blanks, as the parser reads it back unchanged."""
    if word in OPERATORS:
        return f"\\{word}"
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", word)


def _beginning(word: str, parts: int) -> str:
    """A word up to the end of so many of its parts."""
    ends = [found.end() for found in _PARTS.finditer(word)][:parts]
    return word[: ends[-1]] if ends else ""
