"""The enqueue transaction: one page of requests becomes jobs."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from neo4j import ManagedTransaction

from neo4j_queue.cypher import statement
from neo4j_queue.database import Row, packed
from neo4j_queue.jobs import PRIORITY_HIGHEST, Enqueued, EnqueueResult, JobRequest, Status

T = TypeVar("T")
Key = tuple[str, str, str]


def key_of(request: JobRequest) -> Key:
    """What makes a job unique: entity, model, content version."""
    return (request.entity_uid, request.model, request.version)


def merged(requests: Sequence[JobRequest]) -> list[JobRequest]:
    """One request per key in the order of the keys (the lock order): the first one's, with the highest priority, and
    forced if any is."""
    kept: dict[Key, JobRequest] = {}
    for request in requests:
        key = key_of(request)
        known = kept.setdefault(key, request)
        if known is not request:
            kept[key] = replace(
                known,
                priority=max(known.priority, request.priority),
                force=known.force or request.force,
                due_now=known.due_now or request.due_now,
            )
    return [kept[key] for key in sorted(kept)]


def pages(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """`items` in lists of at most `size`."""
    for first in range(0, len(items), size):
        yield list(items[first : first + size])


def one_for_each(requests: Sequence[JobRequest], found: Mapping[Key, EnqueueResult]) -> list[EnqueueResult]:
    """One result per request; a request that repeats a key within the call is a duplicate of the first one's job."""
    results: list[EnqueueResult] = []
    seen: set[Key] = set()
    for request in requests:
        key = key_of(request)
        first = found[key]
        results.append(
            EnqueueResult(first.id, first.entity_uid, Enqueued.DUPLICATE) if key in seen else first
        )
        seen.add(key)
    return results


@dataclass(frozen=True, slots=True)
class EnqueueTransaction:
    """One page of requests with distinct keys. The ids are drawn once, so that a repeat means the same jobs.

    `leave_failed`: a job that failed for good stays failed. `keep_priority`: one that waits or runs is not raised.
    """

    page: Sequence[JobRequest]
    max_attempts: int
    leave_failed: bool
    keep_priority: bool
    now: int | None
    _drawn: list[dict[str, Any]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        drawn = [{**_row(request), "row": n, "id": str(uuid.uuid4())} for n, request in enumerate(self.page)]
        object.__setattr__(self, "_drawn", drawn)

    def run(self, tx: ManagedTransaction) -> list[EnqueueResult]:
        """The results in the order of the page. Only jobs that may have to change are locked."""
        jobs = self._merge(tx, self._drawn)
        changing = [
            {**self._drawn[n], "id": job["id"]}
            for n, job in jobs.items()
            if self._may_change(self._drawn[n], job)
        ]
        again = self._requeue(tx, changing)
        gone = [self._drawn[row["row"]] for row in changing if again.get(row["row"]) is None]
        # The clean-up removed them: in the middle of the first statement, whose row has no id then, or between the
        # two. Now the merge makes them anew.
        gone += [self._drawn[n] for n, job in jobs.items() if job["id"] is None]
        jobs.update(self._merge(tx, gone))
        return [
            EnqueueResult(jobs[n]["id"], request.entity_uid, self._outcome(jobs[n], again))
            for n, request in enumerate(self.page)
        ]

    def _merge(self, tx: ManagedTransaction, rows: Sequence[dict[str, Any]]) -> dict[int, Row]:
        """The job that stands for each row, by row."""
        if not rows:
            return {}
        common = {"max_attempts": self.max_attempts, "now": self.now}
        return {job["row"]: job for job in packed(tx, statement("jobs/enqueue"), rows=rows, **common)}

    def _requeue(self, tx: ManagedTransaction, rows: Sequence[dict[str, Any]]) -> dict[int, bool | None]:
        """Which were queued again, by row; None or no entry: gone."""
        if not rows:
            return {}
        common = {
            "max_attempts": self.max_attempts,
            "leave_failed": self.leave_failed,
            "keep_priority": self.keep_priority,
            "now": self.now,
        }
        return {
            job["row"]: job["again"] for job in packed(tx, statement("jobs/requeue"), rows=rows, **common)
        }

    def _may_change(self, row: Mapping[str, Any], job: Mapping[str, Any]) -> bool:
        """True if a job that stood before may have to change; the statement judges again under its lock."""
        if job["id"] is None or job["id"] == row["id"]:
            return False
        match job["status"]:
            case Status.FAILED:
                return not self.leave_failed
            case Status.COMPLETED if row["force"]:
                return True
            case Status.PENDING if row["due_now"]:
                return True
        return not self.keep_priority and bool(row["priority"] > job["priority"])

    def _outcome(self, job: Mapping[str, Any], again: Mapping[int, bool | None]) -> Enqueued:
        row = job["row"]
        if job["id"] == self._drawn[row]["id"]:
            return Enqueued.CREATED
        if again.get(row):
            return Enqueued.REQUEUED
        return Enqueued.LEFT_FAILED if job["status"] == Status.FAILED else Enqueued.DUPLICATE


def _row(request: JobRequest) -> dict[str, Any]:
    return {
        "entity_uid": request.entity_uid,
        "model": request.model,
        "version": request.version,
        "priority": min(max(request.priority, 0), PRIORITY_HIGHEST),
        "est_tokens": request.est_tokens,
        "force": request.force,
        "due_now": request.due_now,
    }
