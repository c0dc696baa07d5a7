"""Indexes as the server describes them: what is there, what is built, and how one is made."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neo4j.exceptions import Neo4jError

from neo4j_queue.database import Database, rows
from neo4j_queue.graph.indexes import Index as Index
from neo4j_queue.graph.indexes import indexes as indexes

# An index over a million stored vectors builds for half an hour; init does not wait that long, for writing
# works meanwhile and `check_graph` tells how far it is.
ONLINE_WAIT_S = 600.0
POLL_S = 0.1
# Another `init` was faster: IF NOT EXISTS is judged before the lock on the schema is taken. Where keys are shared, its
# index has the name of the constraint that is tried first.
_CREATED_MEANWHILE = frozenset(
    f"Neo.ClientError.Schema.{code}"
    for code in ("EquivalentSchemaRuleAlreadyExists", "IndexWithNameAlreadyExists", "IndexAlreadyExists")
)
Progress = Callable[[Mapping[str, float]], None]


@dataclass(frozen=True, slots=True)
class Report:
    """What a migration or a check found. `notes` are good to know; with `problems` nothing can work."""

    database: str
    version: int | None = None
    created: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if the product can work on this database."""
        return not self.problems


def wait_online(
    database: Database,
    names: Sequence[str],
    *,
    wait_s: float = ONLINE_WAIT_S,
    progress: Progress | None = None,
) -> bool:
    """Waits until these indexes are built; False when they are not within `wait_s` seconds or have failed."""
    deadline = time.monotonic() + wait_s
    while True:
        building = {
            index.name: index.percent
            for index in indexes(database).values()
            if index.name in names and index.state == "POPULATING"
        }
        if not building:
            return all(found.state == "ONLINE" for n, found in indexes(database).items() if n in names)
        if time.monotonic() > deadline:
            return False
        if progress is not None:
            progress(building)
        time.sleep(POLL_S)


def create_index(database: Database, name: str | None, query: str, **parameters: Any) -> str | None:
    try:
        # A uniqueness constraint is there when its index is built.
        database.transaction(lambda tx: rows(tx, query, **parameters), timeout_s=ONLINE_WAIT_S)
    except Neo4jError as error:
        if error.code not in _CREATED_MEANWHILE:
            raise
        return None
    return name


def states_of(there: Mapping[str, Index], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Notes about indexes that are still being built, problems about those that failed."""
    found = [there[name] for name in names if name in there]
    building = [f"index {i.name} is being built: {i.percent:.0f} %" for i in found if i.state == "POPULATING"]
    return building, [f"index {i.name} has failed: {i.failure}" for i in found if i.state == "FAILED"]
