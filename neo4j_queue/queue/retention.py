"""How long ended jobs stay: the daily clean-up of the jobs database."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.errors import Neo4jQueueError
from neo4j_queue.jobs import Status
from neo4j_queue.queue import counts

log = structlog.get_logger()

# Jobs per transaction: long enough to be quick, short enough to hold no lock for a noticeable time.
PAGE = 1_000
# Jobs per statement of APOC's, which must end within a statement's deadline on however slow a machine: twenty pages
# take a second or two.
JOBS_PER_STATEMENT = 20 * PAGE
# Ended leases are the history of the last day, and the rate budget looks back one interval (at most a day).
LEASE_HISTORY = timedelta(days=1)
# APOC puts a `runtime=slotted` of its own behind a leading CYPHER, in front of the version, which is then a syntax
# error. It leaves a statement alone that names a runtime.
SLOTTED = "CYPHER 5 runtime=slotted\n"
ENDED = [Status.COMPLETED.value, Status.FAILED.value]
# "All of them" for the listing statement, which wants a bound.
EVERY = 2**62


class CleanupFailed(Neo4jQueueError):
    """Some batches of a clean-up failed; the message carries the database's own words."""


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """What a clean-up removed. `path` is `apoc` or `native`; `more` is left to be removed."""

    path: str
    removed: int
    archive_purged: int
    leases_pruned: int
    cutoff: int
    labels_mended: int = 0
    more: bool = False


def cleanup(
    database: Database,
    *,
    retention_days: int,
    archive_days: int,
    most: int | None = None,
    now: int | None = None,
) -> CleanupReport:
    """Removes completed and failed jobs that ended more than `retention_days` ago.

    Failed ones leave a slim archive record for `archive_days` after their failure (0 = none). Goes through
    `apoc.periodic.iterate` where APOC is installed, else through native pages, with the same result. Raises
    `CleanupFailed` when a batch failed: never a silent success. With `most` it stops after so many (full pages) of each
    kind: jobs, records, leases.
    """
    now = now if now is not None else int(database.read(statement("retention/clock"))[0]["now"])
    cutoff = now - _ms(timedelta(days=retention_days))
    parameters = {"statuses": ENDED, "cutoff": cutoff, "archive": archive_days > 0, "now": now}
    has_apoc = bool(database.autocommit(statement("retention/has_apoc"))[0]["found"])
    if not has_apoc:
        log.warning(
            "cleanup_without_apoc", reason="apoc.periodic.iterate is not installed; native pages instead"
        )
    most = EVERY if most is None else most
    remove = _through_apoc if has_apoc else _native
    removed = remove(database, parameters, most)
    purged = _pages(database, "retention/purge_archive", now - _ms(timedelta(days=archive_days)), most)
    pruned = _pages(database, "retention/prune_leases", now - _ms(LEASE_HISTORY), most)
    mended = counts.mend(database, min(most, JOBS_PER_STATEMENT))
    return CleanupReport(
        path="apoc" if has_apoc else "native",
        removed=removed,
        archive_purged=purged,
        leases_pruned=pruned,
        cutoff=cutoff,
        labels_mended=mended.labels,
        # Less than `most` by a job or two that were queued again in between: one turn too many does no harm.
        more=mended.more or max(removed, purged, pruned) > most - PAGE,
    )


def _through_apoc(database: Database, parameters: Mapping[str, Any], most: int) -> int:
    removed = 0
    while removed < most:
        limit = min(JOBS_PER_STATEMENT, most - removed)
        (row,) = database.autocommit(
            statement("retention/iterate"),
            outer=statement("retention/expired").replace("CYPHER 5\n", SLOTTED, 1),
            inner=statement("retention/remove"),
            params={**parameters, "limit": limit},
            batch_size=PAGE,
        )
        if row["failed_batches"] or row["failed"] or row["terminated"]:
            raise CleanupFailed(
                f"{row['failed_batches']} of {row['batches']} clean-up batches failed: {row['errors'] or 'terminated'}"
            )
        removed += int(row["removed"])
        # As below: what could not be removed is in somebody else's hands.
        if row["total"] < limit or not row["removed"]:
            break
    return removed


def _native(database: Database, parameters: Mapping[str, Any], most: int) -> int:
    removed = 0
    while removed < most:
        page = database.read(statement("retention/expired"), cutoff=parameters["cutoff"], limit=PAGE)
        batch = [{"id": row["id"]} for row in page]
        (row,) = database.write(statement("retention/remove"), _batch=batch, **parameters)
        removed += int(row["removed"])
        # A page of which nothing could be removed is in somebody else's hands; asking again might never end.
        if len(page) < PAGE or not row["removed"]:
            break
    return removed


def _pages(database: Database, name: str, cutoff: int, most: int) -> int:
    """Runs a removing statement page by page until a page is not full, or `most` are removed."""
    removed = 0
    while removed < most:
        (row,) = database.write(statement(name), cutoff=cutoff, limit=PAGE)
        removed += int(row["removed"])
        if row["removed"] < PAGE:
            break
    return removed


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)
