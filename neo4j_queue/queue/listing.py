"""Jobs as people look through them, newest first; what that costs follows from the limit, not from the queue."""

from collections.abc import Mapping
from typing import Any

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.jobs import PRIORITIES, Status

ENDED = (Status.COMPLETED, Status.FAILED)

Job = dict[str, Any]


def jobs(database: Database, status: Status | None, entity_uid: str | None, limit: int) -> list[Job]:
    """Jobs with all their properties. Those of an entity by when they were created, others by `time_of`.

    There is no index of when jobs were created, for every change of a job would pay for it. So each state is read in
    the order of an index that it has anyway, and no further than `limit`.
    """
    if entity_uid is not None:
        return _read(
            database, "list_by_entity", entity_uid=entity_uid, status=status and status.value, limit=limit
        )
    found = [job for each in ([status] if status else Status) for job in _of_status(database, each, limit)]
    return sorted(found, key=time_of, reverse=True)[:limit]


def time_of(job: Mapping[str, Any]) -> int:
    """When the job ended; when it is or was due, if it has not."""
    return int(job["processed_at"] if job["status"] in ENDED else job["available_at"])


def public(job: Mapping[str, Any]) -> Job:
    """Without the properties that are only there to take a lock."""
    return {name: value for name, value in job.items() if not name.startswith("_")}


def _of_status(database: Database, status: Status, limit: int) -> list[Job]:
    if status in ENDED:
        return _read(database, "list_ended", status=status.value, limit=limit)
    return _read(database, "list_unfinished", status=status.value, priorities=PRIORITIES, limit=limit)


def _read(database: Database, name: str, **parameters: Any) -> list[Job]:
    return [public(row["job"]) for row in database.read(statement(f"jobs/{name}"), **parameters)]
