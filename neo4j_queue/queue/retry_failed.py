"""Failed jobs that a person names, or describes, go back to `pending`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from neo4j import ManagedTransaction

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database, rows
from neo4j_queue.queue import tally
from neo4j_queue.queue.clock import Clock
from neo4j_queue.queue.failed_jobs import Selection, failed_ids

# Jobs per transaction: their locks are held for well under a second.
PAGE = 1_000


class Retried(NamedTuple):
    """Jobs that were queued again, and those left failed: they were made for entities of another graph, label or key
    than the settings in force mean, whose workers would end them without a vector."""

    jobs: int
    left: int = 0


@dataclass(frozen=True, slots=True)
class RetryTransaction:
    """One page of a retry; see `EmbedQueue.retry_failed`. What is not of the `selection` under its lock stays."""

    selection: Selection
    ids: Sequence[str]
    now: int | None

    def run(self, tx: ManagedTransaction) -> Retried:
        """What became of them."""
        asked = self.selection.parameters()
        found = rows(tx, statement("jobs/retry_failed"), **asked, ids=list(self.ids), now=self.now)
        foreign = sum(row["foreign"] for row in found)
        tally.add(tx, {"requeued": len(found) - foreign})
        return Retried(len(found) - foreign, foreign)


def retry(
    database: Database,
    selection: Selection,
    limit: int | None,
    ids: Sequence[str] | None,
    now: Clock,
) -> Retried:
    """Queues failed jobs again, at most `limit` of them: those of `ids`, or all that the `selection` means."""
    retried = left = 0
    for some in failed_ids(database, selection) if ids is None else iter([sorted(set(ids))]):
        looked_at = 0
        while looked_at < len(some) and (limit is None or retried < limit):
            size = PAGE if limit is None else min(PAGE, limit - retried)
            page = database.transaction(
                RetryTransaction(selection, some[looked_at : looked_at + size], now()).run
            )
            retried, left = retried + page.jobs, left + page.left
            looked_at += size
        if limit is not None and retried >= limit:
            break
    return Retried(retried, left)
