"""What the page asks the databases: each look is bounded in time, and none grows with the jobs or the entities."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from neo4j.exceptions import DriverError, Neo4jError

from neo4j_queue.checks.health import Checkup, Report
from neo4j_queue.errors import SettingsError, TemporarilyUnavailable
from neo4j_queue.errors.explain import explain as in_words
from neo4j_queue.graph import EntityGraph
from neo4j_queue.in_time import InTime
from neo4j_queue.jobs import Status
from neo4j_queue.queue import history, listing, outlook
from neo4j_queue.queue.failed_jobs import Selection
from neo4j_queue.queue.history import Sample
from neo4j_queue.queue.leases import QueueStatus
from neo4j_queue.queue.listing import Job
from neo4j_queue.queue.orphans import StartedLease
from neo4j_queue.queue.outlook import Outlook
from neo4j_queue.reconcile.explain import explain
from neo4j_queue.reconcile.explanation import Explanation

# A page is there within three seconds; the health may have taken two and a half of them.
PAGE_WITHIN_S = 3.0
# However late it is, an answer of some milliseconds is waited for.
LEAST_S = 0.4
# Dead letters on a page, and on the first one.
LETTERS, LATEST = 50, 5
MOST_LATE = 8
# Of a job: what pages show. Its text is no property of it.
OF_A_JOB = (
    "id",
    "entity_uid",
    "model",
    "status",
    "outcome",
    "failure_reason",
    "error",
    "error_category",
    "error_type",
    "error_status",
    "created_at",
    "processed_at",
    "attempts",
    "max_attempts",
    "crashes",
    "worker",
    "history",
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Depths:
    """What the jobs database tells beside the health. `letters`: the latest dead ones; `started`: the leases that run,
    by worker."""

    outlook: Outlook
    samples: Sequence[Sample]
    letters: Sequence[Job]
    started: dict[str, list[StartedLease]]


@dataclass(frozen=True, slots=True)
class Missing:
    """Why something is not shown: whose answer is missing, in words."""

    why: str


@dataclass(frozen=True, slots=True)
class Letters:
    """Dead letters that match, the latest first. `more`: there are others among those that were looked at."""

    jobs: Sequence[Job]
    more: bool


@dataclass(slots=True)
class Looks:
    """The looks of one page; any thread may take them, each within the time that is left of the request."""

    checkup: Checkup
    _of_jobs: InTime = field(default_factory=lambda: InTime("the jobs database", most_late=MOST_LATE))
    _of_both: InTime = field(
        default_factory=lambda: InTime("the graph or the jobs database", most_late=MOST_LATE)
    )

    def depths(self, status: QueueStatus, began: float) -> Depths | Missing:
        """Forecast, history, workers and the latest dead letters."""
        queue = self.checkup.queue

        def look() -> Depths:
            started: dict[str, list[StartedLease]] = {}
            for lease in queue.locks.started():
                started.setdefault(lease.worker or "?", []).append(lease)
            return Depths(
                outlook.read(queue, status),
                history.read(queue.database, status.now),
                _shown(listing.jobs(queue.database, Status.FAILED, None, LATEST)) if status.failed else (),
                started,
            )

        return _asked(self._of_jobs, look, began)

    def letters(self, selection: Selection, began: float, limit: int = LETTERS) -> Letters | Missing:
        """The latest dead letters of a kind: see `DeadLetters.latest`."""
        return _asked(self._of_jobs, lambda: self._letters(selection, limit), began)

    def job(self, job_id: str, began: float) -> Job | Missing | None:
        """One job; None if there is none."""

        def look() -> Job | None:
            job = self.checkup.queue.job(job_id)
            return None if job is None else _shown([job])[0]

        return _asked(self._of_jobs, look, began)

    def explained(self, name: str, began: float) -> Explanation | Missing | None:
        """Why an entity has no fresh vector; None for what can be no name."""
        checkup = self.checkup
        graph = EntityGraph.from_settings(checkup.settings, checkup.queue.enqueue, database=checkup.graph)

        def look() -> Explanation | None:
            try:
                return explain(graph, checkup.queue, checkup.settings, name)
            except ValueError:
                return None

        return _asked(self._of_both, look, began)

    def _letters(self, selection: Selection, limit: int) -> Letters:
        dead = self.checkup.queue.dead
        ids = dead.latest(selection, limit + 1)
        return Letters(_shown(dead.of(ids[:limit])), len(ids) > limit)


def _shown(jobs: Sequence[Job]) -> list[Job]:
    """The properties that pages show, each with None where a job has none."""
    return [{name: job.get(name) for name in OF_A_JOB} for job in jobs]


def _asked(in_time: InTime, look: Callable[[], T], began: float) -> T | Missing:
    """What the look found, or why it found nothing in the time that is left since `began` (monotonic seconds)."""
    left_s = max(LEAST_S, began + PAGE_WITHIN_S - time.monotonic())
    try:
        return in_time(look, left_s)
    except (TemporarilyUnavailable, SettingsError) as error:
        return Missing(str(error))
    except (Neo4jError, DriverError) as error:
        return Missing(in_words(error))


def facts_missing(report: Report) -> Missing | None:
    """Why the jobs database tells nothing; None if it does."""
    if report.facts is not None:
        return None
    return Missing(report.health.reasons[0] if report.health.reasons else "the jobs database cannot be used")
