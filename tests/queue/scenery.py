"""What the tests of the queue start from: a clock that only they move, requests, and jobs made in bulk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import neo4j
from neo4j import ManagedTransaction

from neo4j_queue.database import Database
from neo4j_queue.errors import ErrorCategory, Fault, FaultKind
from neo4j_queue.jobs import JobRequest
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import Failure, LeasedJob, LeaseResult, Start

# Some moment of 2023: far from the server's own time, so that a statement that ignores the clock is seen.
BEGINNING = 1_700_000_000_000
MODEL = "mock"
DAY_MS = 86_400_000

# `row` is the number of the job; whatever is in `$properties` comes on top.
MAKE_JOBS = """
CYPHER 5
UNWIND range($first, $first + $count - 1) AS row
CALL (row) {
  CREATE (j:EmbedJob {id: 'job-' + row, entity_uid: 'made-' + row, model: 'mock', version: 'v' + row,
    status: 'pending', priority: row % $priorities, created_at: $at, available_at: $at + row % 1000, attempts: 0,
    max_attempts: 3, crashes: 0, est_tokens: 10})
  SET j += $properties
} IN TRANSACTIONS OF 10000 ROWS
"""

T = TypeVar("T")


@dataclass
class Clock:
    """Epoch ms, as the queue takes it."""

    now: int = BEGINNING

    def __call__(self) -> int:
        return self.now

    def advance(self, ms: int) -> int:
        """Moves on; the new time."""
        self.now += ms
        return self.now


class CountingDatabase(Database):
    """Counts the transactions and the statements that manage their own."""

    calls = 0

    def transaction(self, work: Callable[[ManagedTransaction], T], **options: Any) -> T:
        self.calls += 1
        return super().transaction(work, **options)

    def autocommit(self, query: str, **parameters: Any) -> list[neo4j.Record]:
        self.calls += 1
        return super().autocommit(query, **parameters)


def request(n: int = 0, **more: Any) -> JobRequest:
    """A request for entity number `n`."""
    return JobRequest(f"entity-{n:05}", MODEL, f"{n:016x}", **more)


def requests(count: int, **more: Any) -> list[JobRequest]:
    """Requests for the entities from 0."""
    return [request(n, **more) for n in range(count)]


def make_jobs(
    database: Database,
    count: int,
    *,
    first: int = 0,
    at: int = BEGINNING,
    priorities: int = 10,
    **properties: Any,
) -> None:
    """`count` jobs in bulk, numbered from `first`, due within the second after `at`, over `priorities` priorities."""
    database.autocommit(
        MAKE_JOBS, first=first, count=count, at=at, priorities=priorities, properties=properties
    )


def all_jobs(database: Database) -> dict[str, dict[str, Any]]:
    """Every job with all its properties, by id."""
    found = database.read("CYPHER 5 MATCH (j:EmbedJob) RETURN j {.*} AS job")
    return {row["job"]["id"]: row["job"] for row in found}


def the_lease(database: Database, token: str) -> dict[str, Any]:
    """The lease node of a token."""
    (row,) = database.read(
        "CYPHER 5 MATCH (l:EmbedLease {token: $token}) RETURN l {.*} AS lease", token=token
    )
    return dict(row["lease"])


def fault(category: ErrorCategory = ErrorCategory.TRANSIENT, **more: Any) -> Fault:
    """Some fault of a provider."""
    kind = FaultKind.ITEM if category is ErrorCategory.PERMANENT else FaultKind.OUTAGE
    named: dict[str, Any] = {"kind": kind, "error_type": "InternalServerError", "message": "it broke", **more}
    return Fault(category=category, **named)


def failures(jobs: Sequence[LeasedJob], category: ErrorCategory = ErrorCategory.TRANSIENT) -> list[Failure]:
    """The same fault of all the jobs."""
    return [Failure(job, fault(category)) for job in jobs]


@dataclass
class Running:
    """A lease whose work has begun."""

    token: str
    jobs: tuple[LeasedJob, ...]

    @property
    def ids(self) -> list[str]:
        """The ids of its jobs."""
        return [job.id for job in self.jobs]


def leased(queue: EmbedQueue, owner: str = "w1", batches: int = 1) -> LeaseResult:
    """Leases, and insists on getting something."""
    result = queue.lease(owner, batches=batches)
    assert result.leases, result.reason
    return result


def running(queue: EmbedQueue, owner: str = "w1") -> Running:
    """One batch, leased and started."""
    (lease,) = leased(queue, owner).leases
    start: Start = queue.start(lease.token, lease.job_ids, worker=owner)
    assert start.refused is None
    return Running(lease.token, start.jobs)
