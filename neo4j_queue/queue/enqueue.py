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
        known = kept.setdefault(key_of(request), request)
        if known is not request:
            kept[key_of(request)] = replace(
                known, priority=max(known.priority, request.priority), force=known.force or request.force
            )
    return [kept[key] for key in sorted(kept)]


def pages(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """`items` in lists of at most `size`."""
    for first in range(0, len(items), size):
        yield list(items[first : first + size])


def each_its_own(wanted: Sequence[JobRequest], found: Mapping[Key, EnqueueResult]) -> list[EnqueueResult]:
    """One result per request: whoever repeats a key within the call has a duplicate of the first one's job."""
    results: list[EnqueueResult] = []
    seen: set[Key] = set()
    for request in wanted:
        key = key_of(request)
        first = found[key]
        results.append(
            EnqueueResult(first.id, first.entity_uid, Enqueued.DUPLICATE) if key in seen else first
        )
        seen.add(key)
    return results


@dataclass(frozen=True, slots=True)
class EnqueueTransaction:
    """One page of requests with distinct keys. The ids are drawn once, so that a repeat means the same jobs."""

    page: Sequence[JobRequest]
    max_attempts: int
    now: int | None
    _drawn: list[dict[str, Any]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        drawn = [{**_row(request), "row": n, "id": str(uuid.uuid4())} for n, request in enumerate(self.page)]
        object.__setattr__(self, "_drawn", drawn)

    def run(self, tx: ManagedTransaction) -> list[EnqueueResult]:
        """The results in the order of the page. Only jobs that may have to change are locked."""
        jobs = self._merge(tx, self._drawn)
        changing = [
            {**self._drawn[n], "id": job["id"]} for n, job in jobs.items() if _may_change(self._drawn[n], job)
        ]
        again = self._requeue(tx, changing)
        gone = [self._drawn[row["row"]] for row in changing if again.get(row["row"]) is None]
        # The clean-up removed them between the two statements; now the merge makes them anew.
        jobs.update(self._merge(tx, gone))
        return [
            EnqueueResult(jobs[n]["id"], request.entity_uid, self._outcome(jobs[n], again))
            for n, request in enumerate(self.page)
        ]

    def _merge(self, tx: ManagedTransaction, wanted: Sequence[dict[str, Any]]) -> dict[int, Row]:
        """The jobs that stand, by row."""
        if not wanted:
            return {}
        common = {"max_attempts": self.max_attempts, "now": self.now}
        return {job["row"]: job for job in packed(tx, statement("jobs/enqueue"), rows=wanted, **common)}

    def _requeue(self, tx: ManagedTransaction, changing: Sequence[dict[str, Any]]) -> dict[int, bool | None]:
        """Which were queued again, by row; None or no entry: gone."""
        if not changing:
            return {}
        common = {"max_attempts": self.max_attempts, "now": self.now}
        return {
            job["row"]: job["again"] for job in packed(tx, statement("jobs/requeue"), rows=changing, **common)
        }

    def _outcome(self, job: Mapping[str, Any], again: Mapping[int, bool | None]) -> Enqueued:
        if job["id"] == self._drawn[job["row"]]["id"]:
            return Enqueued.CREATED
        return Enqueued.REQUEUED if again.get(job["row"]) else Enqueued.DUPLICATE


def _row(request: JobRequest) -> dict[str, Any]:
    return {
        "entity_uid": request.entity_uid,
        "model": request.model,
        "version": request.version,
        "priority": min(max(request.priority, 0), PRIORITY_HIGHEST),
        "est_tokens": request.est_tokens,
        "force": request.force,
    }


def _may_change(wanted: Mapping[str, Any], job: Mapping[str, Any]) -> bool:
    """Is a standing job to be queued again, or to be raised? The statement judges once more under the lock."""
    ended = job["status"] == Status.FAILED or (wanted["force"] and job["status"] == Status.COMPLETED)
    return bool(job["id"] != wanted["id"] and (ended or wanted["priority"] > job["priority"]))
