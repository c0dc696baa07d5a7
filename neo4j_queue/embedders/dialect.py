"""The body of an embeddings request in the dialect of its server, and what the server was found not to understand."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from neo4j_queue.providers import NO_ENCODING, Dialect

# Fields without which there is no request.
NEEDED = frozenset({"model", "input"})


class RequestBody:
    """Makes the bodies of requests.

    A server that refuses a field by its name is asked again without it. What it shows then is remembered for the
    process: the field is left out, or kept and never suspected again. So a field costs one further request at most.
    """

    def __init__(self, dialect: Dialect, *, model: str, width: int | None) -> None:
        """`width`: the width to ask for; None = not asked for."""
        self._dialect = dialect
        asked: dict[str, object] = {"model": model}
        if dialect.encoding != NO_ENCODING:
            asked["encoding_format"] = dialect.encoding
        if width is not None:
            asked[dialect.width_field] = width
        self._fields = {
            False: {**asked, **dialect.passage_fields},
            True: {**asked, **dialect.query_fields},
        }
        # Replaced as a whole, never changed: threads read them without a lock.
        self._refused: frozenset[str] = frozenset()
        self._innocent: frozenset[str] = frozenset()

    def of(self, texts: Sequence[str], *, query: bool, without: Collection[str] = ()) -> dict[str, object]:
        """The body for some texts, without some of the fields."""
        prefix = self._dialect.query_prefix if query else self._dialect.passage_prefix
        left_out = self._refused.union(without)
        fields = {name: value for name, value in self._fields[query].items() if name not in left_out}
        return {**fields, "input": [prefix + text for text in texts] if prefix else list(texts)}

    def suspect(self, message: str, *, query: bool, without: Collection[str] = ()) -> str | None:
        """A field that a refusal names, and that was sent; None if there is none."""
        known = self._refused | self._innocent | NEEDED
        for name in self._fields[query]:
            if name not in known and name not in without and names(message, name):
                return name
        return None

    def leave_out(self, fields: Iterable[str]) -> frozenset[str]:
        """Leaves fields out from now on. Returns those that were sent until now."""
        new = frozenset(fields) - self._refused
        self._refused |= new
        return new

    def keep(self, field: str) -> None:
        """Suspects a field no more: a refusal named it again, though it was not sent."""
        self._innocent |= {field}


def names(message: str, field: str) -> bool:
    """True if a message holds the name of a field as a word."""
    return re.search(rf"(?<!\w){re.escape(field)}(?!\w)", message) is not None


def joined(fields: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    """Both; a value of `more` that is null takes the field away."""
    return {name: value for name, value in {**fields, **more}.items() if value is not None}
