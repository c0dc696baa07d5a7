"""Keeps keys and entity texts out of stored and logged error messages.

Providers quote what they refuse: half of a wrong key, the first thousand characters of an input, or the whole request
in a validation error. The exception of a failed request carries that request, so the keys and texts to hide are known
exactly.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

HIDDEN_KEY = "[key]"
HIDDEN_TEXT = "[text]"

# What looks like a key, for messages whose request is not at hand (providers show keys half starred out, too).
_KEY = re.compile(
    r"\b(?:sk|pk|key|api|gsk|hf|AIza)[-_][A-Za-z0-9*_\-.]{8,}|AIza[A-Za-z0-9_\-]{20,}|(?<=Bearer )\S+"
)
# A shorter quotation counts as the provider's own words: "maximum context length" may occur in a text too, and a
# message without its words is of no use.
QUOTED_CHARS = 24
# Any run of QUOTED_CHARS contains a whole window of half that size at a multiple of it, so looking up each
# such window finds every run.
_WINDOW = QUOTED_CHARS // 2
# A window of words that many texts share occurs often; the longest run begins at one of the first.
_OCCURRENCES = 50
# A short text is hidden where it appears whole; a shorter one than this is a word like any other.
_WHOLE_TEXT_CHARS = 6
# Before the search a message is cut to a multiple of what is kept: redaction costs per character.
_SEARCHED = 2
# Texts are quoted as they are, as JSON, or as a string of some language. They are compared without what differs:
# escapes, quotes, blanks, and characters that JSON may write as two.
_QUOTING = re.compile(r"\\u([0-9a-fA-F]{4})|\\.|[\s\"'\\\U00010000-\U0010ffff]|(.)", re.DOTALL)
_BARE = re.compile(r"[\s\"'\\\ud800-\udfff\U00010000-\U0010ffff]+")


@dataclass(frozen=True, slots=True)
class Redactor:
    """Replaces known keys and texts."""

    keys: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    @classmethod
    def for_exception(cls, exc: BaseException) -> Self:
        """The redactor for an exception of an HTTP client, by the request that it carries."""
        request = vars(exc).get("request") if hasattr(exc, "__dict__") else None
        return cls() if request is None else cls(_keys(request), _texts(request))

    def clean(self, message: str, limit: int) -> str:
        """The first `limit` characters of the message, without keys and texts."""
        return _truncated(self._hidden(message[: limit * _SEARCHED]), limit)

    def clean_stack(self, stack: str, limit: int) -> str:
        """The last `limit` characters of a stack, without keys and texts: the end names the line that raised."""
        return self._hidden(stack[-limit:])[-limit:]

    def quotes(self, phrase: str) -> bool:
        """True if the phrase occurs in one of the texts, in upper or lower case and however it is quoted."""
        bare = _BARE.sub("", phrase).casefold()
        return any(bare in _BARE.sub("", text).casefold() for text in self.texts)

    def _hidden(self, message: str) -> str:
        for key in self.keys:
            message = message.replace(key, HIDDEN_KEY)
        message = _KEY.sub(HIDDEN_KEY, message)
        for text in self.texts:
            if len(text) >= _WHOLE_TEXT_CHARS:
                message = message.replace(text, HIDDEN_TEXT)
        return _hide_quotations(message, self.texts) if self.texts else message


def _hide_quotations(message: str, texts: tuple[str, ...]) -> str:
    """Replaces every run of at least `QUOTED_CHARS` characters that also occurs in a text."""
    haystack = "\0".join(_BARE.sub("", text) for text in texts)
    bare, places = _bare_with_places(message)
    kept: list[str] = []
    done = at = shown = 0
    while at + _WINDOW <= len(bare):
        start, end = _longest_run(bare, haystack, at, done)
        if end - start < QUOTED_CHARS:
            at += _WINDOW
            continue
        kept += [message[shown : places[start][0]], HIDDEN_TEXT]
        done = at = end
        shown = places[end - 1][1]
    return "".join(kept) + message[shown:]


def _bare_with_places(message: str) -> tuple[str, list[tuple[int, int]]]:
    """The message without quoting, and for each of its characters where it begins and ends in the message."""
    characters: list[str] = []
    places: list[tuple[int, int]] = []
    for match in _QUOTING.finditer(message):
        code, plain = match.groups()
        character = chr(int(code, 16)) if code else plain
        if character and not _BARE.fullmatch(character):
            characters.append(character)
            places.append(match.span())
    return "".join(characters), places


def _longest_run(bare: str, haystack: str, at: int, done: int) -> tuple[int, int]:
    """The longest common run around the window at `at` that begins at `done` or later; empty without one."""
    best = (at, at)
    found = -1
    for _ in range(_OCCURRENCES):
        found = haystack.find(bare[at : at + _WINDOW], found + 1)
        if found < 0:
            break
        back, ahead = 0, _WINDOW
        while at - back > done and found - back > 0 and bare[at - back - 1] == haystack[found - back - 1]:
            back += 1
        while (
            at + ahead < len(bare)
            and found + ahead < len(haystack)
            and bare[at + ahead] == haystack[found + ahead]
        ):
            ahead += 1
        if back + ahead > best[1] - best[0]:
            best = (at - back, at + ahead)
    return best


def _truncated(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _keys(request: Any) -> tuple[str, ...]:
    headers = getattr(request, "headers", None)
    if not isinstance(headers, Mapping):
        return ()
    values = [headers.get("authorization", "").removeprefix("Bearer ").strip(), headers.get("api-key", "")]
    return tuple(value for value in values if value)


def _texts(request: Any) -> tuple[str, ...]:
    """The inputs of an embeddings request; none if its body cannot be read back."""
    try:
        body = json.loads(request.content)
    except (RuntimeError, ValueError, AttributeError):  # a streamed body, another format, another client
        return ()
    inputs = body.get("input") if isinstance(body, dict) else None
    if isinstance(inputs, str):
        return (inputs,)
    return tuple(text for text in inputs if isinstance(text, str)) if isinstance(inputs, list) else ()
