"""What a search is asked for, checked before anything is asked."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from enum import StrEnum
from typing import Any, Self

from neo4j_queue.graph.accepted import checked_limit, filterable
from neo4j_queue.wellformed import is_well_formed

# A page of results that is longer is an export, which is not what the indexes are for.
MAX_LIMIT = 1_000
# Of what is quoted in a message.
SHOWN = 80


class SearchMode(StrEnum):
    """How entities are found: by meaning (vectors), by words, or by both."""

    SEMANTIC = "semantic"
    KEYWORD = "keyword"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class Filters:
    """What an entity must have to be found: each of the labels, each property value, a change since then (epoch ms).

    Values are parameters of a statement, and so are the names of properties: nothing of them becomes code.
    """

    labels: tuple[str, ...] = ()
    where: Mapping[str, Any] | None = None
    since: int | None = None

    @property
    def any(self) -> bool:
        """True if anything is filtered."""
        return bool(self.labels or self.where or self.since is not None)

    @property
    def parameters(self) -> dict[str, Any]:
        """For the statements."""
        return {"labels": list(self.labels), "where": dict(self.where or {}), "since": self.since}


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search as it is meant. `mode` None: both halves where they are there."""

    query: str
    limit: int
    mode: SearchMode | None
    min_score: float | None
    filters: Filters
    strict: bool
    lucene: bool

    @classmethod
    def checked(
        cls,
        query: str,
        limit: int,
        *,
        mode: SearchMode | str | None,
        min_score: float | None,
        labels: Iterable[str],
        where: Mapping[str, Any] | None,
        changed_since: datetime | str | None,
        strict: bool,
        lucene: bool,
    ) -> Self:
        """Raises ValueError with one line about what cannot be meant."""
        chosen = _mode(mode)
        if lucene and chosen is SearchMode.SEMANTIC:
            raise ValueError("mode=semantic: looks at no words, so there is no use for Lucene syntax")
        if lucene and chosen is None:
            # Syntax says nothing to an embedding model.
            chosen = SearchMode.KEYWORD
        return cls(
            _query(query),
            min(_limit(limit), MAX_LIMIT),
            chosen,
            _score(min_score),
            Filters(_labels(labels), _where(where), _since(changed_since)),
            bool(strict),
            bool(lucene),
        )


def _query(query: object) -> str:
    if not isinstance(query, str):
        raise ValueError(f"the query is a text, not {_shown(query)}")
    if not query.strip():
        raise ValueError("the query is blank")
    if not is_well_formed(query):
        raise ValueError(f"the query {_shown(query)} holds half of a character")
    return query


def _limit(limit: object) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise ValueError(f"limit={_shown(limit)}: a whole number, 1 or more")
    return checked_limit(limit)


def _mode(mode: SearchMode | str | None) -> SearchMode | None:
    if mode is None:
        return None
    try:
        return SearchMode(mode)
    except ValueError:
        raise ValueError(f"mode={_shown(mode)}: one of {', '.join(SearchMode)}") from None


def _score(least: object) -> float | None:
    if least is None:
        return None
    # NaN compares with nothing: every hit would pass, or none.
    if not isinstance(least, int | float) or isinstance(least, bool) or math.isnan(least):
        raise ValueError(f"min_score={_shown(least)}: a number from 0 to 1")
    if not 0 <= least <= 1:
        raise ValueError(f"min_score={least:g}: a number from 0 to 1")
    return float(least)


def _labels(labels: object) -> tuple[str, ...]:
    # One text would be taken for its letters.
    given = (labels,) if isinstance(labels, str) else labels
    if not isinstance(given, Iterable):
        raise ValueError(f"labels={_shown(labels)}: names of labels")
    names = tuple(given)
    for name in names:
        if not isinstance(name, str) or not name or not is_well_formed(name):
            raise ValueError(f"labels: {_shown(name)} is not the name of a label")
    return names


def _where(where: object) -> Mapping[str, Any]:
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        raise ValueError(f"where={_shown(where)}: a map of properties and values")
    for name, value in where.items():
        if not isinstance(name, str) or not name or not is_well_formed(name):
            raise ValueError(f"where: {_shown(name)} is not the name of a property")
        if problem := filterable(value):
            raise ValueError(f"where: `{name}` {problem}")
    return dict(where)


def _since(since: object) -> int | None:
    """Epoch ms of a time; one without a zone is in UTC."""
    if since is None:
        return None
    at = since
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at.strip())
        except ValueError:
            raise ValueError(f"changed_since={_shown(since)}: {_TIME}") from None
    if isinstance(at, date) and not isinstance(at, datetime):
        at = datetime.combine(at, time())
    if not isinstance(at, datetime):
        raise ValueError(f"changed_since={_shown(since)}: {_TIME}")
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return round(at.timestamp() * 1000)


_TIME = "a datetime, or a text such as 2026-07-01T12:00Z"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
