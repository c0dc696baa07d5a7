"""Failed jobs that a person names, or describes, go back to `pending`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from neo4j import ManagedTransaction

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database, rows
from neo4j_queue.queue.clock import Clock

# Failed jobs that one statement looks at, however few of them are wanted: some ten milliseconds.
STEPS = 5_000
# Jobs per transaction: their locks are held for well under a second.
PAGE = 1_000
# After every time that a server's clock can show.
END = 2**62


class Retried(NamedTuple):
    """Jobs that were queued again, and those left failed: they were made for entities of another graph, label or key
    than the settings in force mean, whose workers would end them without a vector."""

    jobs: int
    left: int = 0


@dataclass(frozen=True, slots=True)
class RetryTransaction:
    """One page of a retry; see `EmbedQueue.retry_failed`. What is not `wanted` under its lock stays."""

    wanted: Mapping[str, Any]
    ids: Sequence[str]
    now: int | None

    def run(self, tx: ManagedTransaction) -> Retried:
        """What became of them."""
        found = rows(tx, statement("jobs/retry_failed"), **self.wanted, ids=list(self.ids), now=self.now)
        foreign = sum(row["foreign"] for row in found)
        return Retried(len(found) - foreign, foreign)


def retry(
    database: Database,
    wanted: Mapping[str, Any],
    limit: int | None,
    ids: Sequence[str] | None,
    now: Clock,
) -> Retried:
    """Queues failed jobs again, at most `limit` of them: those of `ids`, or all of which `wanted` is true."""
    retried = left = 0
    for some in failed_ids(database, wanted) if ids is None else iter([sorted(set(ids))]):
        looked_at = 0
        while looked_at < len(some) and (limit is None or retried < limit):
            size = PAGE if limit is None else min(PAGE, limit - retried)
            page = database.transaction(
                RetryTransaction(wanted, some[looked_at : looked_at + size], now()).run
            )
            retried, left = retried + page.jobs, left + page.left
            looked_at += size
        if limit is not None and retried >= limit:
            break
    return Retried(retried, left)


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
