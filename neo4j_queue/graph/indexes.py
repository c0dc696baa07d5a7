"""Indexes over nodes, as the server describes them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from neo4j import Record

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database

ONLINE = "ONLINE"


@dataclass(frozen=True, slots=True)
class Index:
    """One index over nodes, as the server describes it. `percent` is how much of it is built (0 to 100)."""

    name: str
    type: str
    state: str
    labels: list[str]
    properties: list[str]
    config: dict[str, Any] | None
    constraint: str | None
    percent: float
    failure: str

    def covers(self, label: str, *properties: str) -> bool:
        """True if it is over exactly this label and these properties."""
        return self.labels == [label] and sorted(self.properties) == sorted(properties)

    @property
    def dimensions(self) -> int | None:
        """The width of the vectors that it takes; None: any width, or no vector index."""
        given = (self.config or {}).get("vector.dimensions")
        return None if given is None else int(given)

    @property
    def analyzer(self) -> str | None:
        """What takes texts apart into words; None: no full-text index."""
        given = (self.config or {}).get("fulltext.analyzer")
        return None if given is None else str(given)


def indexes(database: Database) -> dict[str, Index]:
    """Every index over nodes, by name."""
    return _by_name(database.read(statement("schema/indexes")))


def indexes_in_time(database: Database, timeout_s: float) -> dict[str, Index]:
    """As `indexes`, for a person who waits (see `Database.ask`)."""
    return _by_name(database.ask(statement("schema/indexes"), timeout_s=timeout_s))


def _by_name(records: Iterable[Record]) -> dict[str, Index]:
    return {row["name"]: Index(**row.data()) for row in records}
