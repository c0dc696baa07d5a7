"""What was really asked of the provider lately: the figures to lay beside the estimate of a dry run."""

from dataclasses import dataclass
from datetime import timedelta

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database

# Ended leases are kept for a day, and the clean-up that removes them runs once a day.
KEPT_HOURS = 24
HOURS_MAX = 2 * KEPT_HOURS


@dataclass(frozen=True, slots=True)
class Usage:
    """Sums over the leases whose last request began in the window. Times in epoch ms, server clock.

    `model_tokens` as the provider counted them, as estimated where it did not say. `searches`: requests of searches,
    which are in all sums. `unconfirmed`: requests of leases that ran out, which may not have been sent.
    """

    batches: int
    jobs: int
    requests: int
    model_tokens: int
    searches: int
    unconfirmed: int
    first_at: int | None
    last_at: int | None
    now: int


def read(database: Database, hours: float, *, now: int | None = None) -> Usage:
    """The usage of the last `hours`; what is older than a day may have been cleaned up. One look at an index."""
    window_ms = round(timedelta(hours=hours).total_seconds() * 1000)
    (row,) = database.read(statement("jobs/usage"), window_ms=window_ms, now=now)
    return Usage(**row.data())
