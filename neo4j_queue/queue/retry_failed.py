"""The retry transaction: failed jobs that a person names, or describes, go back to `pending`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neo4j import ManagedTransaction

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database, rows

# Failed jobs that one statement looks at, however few of them are wanted: some ten milliseconds.
STEPS = 5_000
# After every time that a server's clock can show.
END = 2**62


@dataclass(frozen=True, slots=True)
class RetryTransaction:
    """One page of a retry; see `EmbedQueue.retry_failed`. What is not `wanted` under its lock stays."""

    wanted: Mapping[str, Any]
    ids: Sequence[str]
    now: int | None

    def run(self, tx: ManagedTransaction) -> int:
        """How many jobs went back."""
        return len(rows(tx, statement("jobs/retry_failed"), **self.wanted, ids=list(self.ids), now=self.now))


def failed_ids(database: Database, wanted: Mapping[str, Any]) -> Iterator[list[str]]:
    """The failed jobs of which `wanted` is true, in the order in which they failed, some at a time.

    Each failed job is looked at once, also where the filter matches late.
    """
    after = 0
    while True:
        found = database.read(statement("jobs/failed_until"), after=after, skip=STEPS - 1)
        until = found[0]["until"] if found else END
        matching = database.read(statement("jobs/failed"), **wanted, after=after, until=until)
        yield [row["id"] for row in matching]
        if not found:
            return
        after = until + 1
