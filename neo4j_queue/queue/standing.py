"""Where the jobs of one entity stand: their history, and what is leased before the one that waits.

Each look is along an index and bounded: what it costs does not grow with the queue.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.jobs import PRIORITIES, Status
from neo4j_queue.queue.listing import Job, public

# Jobs that are shown of one entity; an entity has some each time that its text changes.
SHOWN = 20
# Jobs of one entity that are looked at for the last of them. One that changes more often within the retention may not
# show its last jobs; that of its text now is always there.
LOOKED_AT = 1_000
# Jobs of a priority that are counted before one that waits: some ten milliseconds for each.
COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class History:
    """Jobs of one entity in the order of time; `more`: there are others, or may be."""

    jobs: tuple[Job, ...]
    more: bool

    def of(self, model: str, version: str) -> Job | None:
        """The job for one content version."""
        found = (job for job in self.jobs if (job["model"], job["version"]) == (model, version))
        return next(found, None)


@dataclass(frozen=True, slots=True)
class Ahead:
    """So many due jobs are leased before; `more`: at least so many."""

    jobs: int
    more: bool = False

    def __str__(self) -> str:
        return f"{'more than ' if self.more else ''}{self.jobs:,}"


def history(
    database: Database, entity_uid: str, model: str, versions: Sequence[str], limit: int = SHOWN
) -> History:
    """The jobs for these content versions, and the last `limit` others of the entity."""
    (row,) = database.read(
        statement("jobs/history"),
        leader=True,
        entity_uid=entity_uid,
        model=model,
        versions=list(versions),
        most=LOOKED_AT,
        limit=limit,
    )
    jobs = sorted((public(job) for job in row["jobs"]), key=lambda job: (last_at(job), job["created_at"]))
    return History(tuple(jobs), row["looked_at"] >= LOOKED_AT or row["looked_at"] > len(jobs))


def last_at(job: Mapping[str, int | None]) -> int:
    """When something last happened to a job that is known: its end, the start of its work, or its beginning."""
    return job.get("processed_at") or job.get("started_at") or job.get("leased_at") or job["created_at"] or 0


def ahead(database: Database, job: Job, now: int | None = None) -> Ahead:
    """What is leased before this job, if it is due; nothing stands before one that is running."""
    if job["status"] != Status.PENDING:
        return Ahead(0)
    priority = int(job["priority"])
    (row,) = database.read(
        statement("jobs/ahead"),
        higher=[each for each in PRIORITIES if each > priority],
        priority=priority,
        available_at=job["available_at"],
        most=COUNTED,
        now=now,
    )
    return Ahead(min(row["ahead"], COUNTED), row["ahead"] >= COUNTED)
