"""Jobs as people look through them, newest first; what that costs follows from the limit, not from the queue."""

from collections.abc import Mapping
from typing import Any

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.jobs import PRIORITIES, Status
from neo4j_queue.queue import attempts
from neo4j_queue.queue.leases import HeldJob

ENDED = (Status.COMPLETED, Status.FAILED)

Job = dict[str, Any]


def jobs(
    database: Database, status: str | None, entity_uid: str | None, limit: int = 50, since: int = 0
) -> list[Job]:
    """Jobs with all their properties. Those of an entity by when they were created, others by `time_of`.

    `since`: only those of that time (epoch ms) or later.

    There is no index of when jobs were created, for every change of a job would pay for it. So each state is read in
    the order of an index that it has anyway, and no further than `limit`.
    """
    limit = max(1, limit)
    if entity_uid is not None:
        asked = {
            "entity_uid": entity_uid,
            "status": status and Status(status).value,
            "since": since,
            "limit": limit,
        }
        return _read(database, "list_by_entity", **asked)
    found = [
        job
        for each in ([Status(status)] if status else Status)
        for job in _of_status(database, each, limit, since)
    ]
    return sorted(found, key=time_of, reverse=True)[:limit]


def held(database: Database) -> list[HeldJob]:
    """The running jobs with their leases, those that run longest first."""
    return [HeldJob(**row.data()) for row in database.read(statement("jobs/held"))]


def time_of(job: Mapping[str, Any]) -> int:
    """When the job ended; when it is or was due, if it has not."""
    return int(job["processed_at"] if job["status"] in ENDED else job["available_at"])


def public(job: Mapping[str, Any]) -> Job:
    """Without the properties that are only there to take a lock; the attempts that failed as values."""
    shown = {name: value for name, value in job.items() if not name.startswith("_")}
    if "history" in shown:
        shown["history"] = [attempt.as_json() for attempt in attempts.read(shown["history"])]
    return shown


def _of_status(database: Database, status: Status, limit: int, since: int) -> list[Job]:
    if status in ENDED:
        return _read(database, "list_ended", status=status.value, since=since, limit=limit)
    asked = {"status": status.value, "priorities": PRIORITIES, "since": since, "limit": limit}
    return _read(database, "list_unfinished", **asked)


def _read(database: Database, name: str, **parameters: Any) -> list[Job]:
    return [public(row["job"]) for row in database.read(statement(f"jobs/{name}"), **parameters)]
