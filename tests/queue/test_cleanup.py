"""Retention: what goes, what stays, and what is said about it."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from neo4j import Record
from structlog.testing import capture_logs

from neo4j_queue.database import Database
from neo4j_queue.errors import ErrorCategory
from neo4j_queue.local_services import LocalServices
from neo4j_queue.queue import EmbedQueue, retention
from neo4j_queue.queue.retention import CleanupFailed
from neo4j_queue.settings import Settings
from tests.queue.interleaving import HeldDatabase, plant
from tests.queue.scenery import (
    BEGINNING,
    DAY_MS,
    Clock,
    all_jobs,
    failures,
    make_jobs,
    request,
    running,
)

MakeQueue = Callable[..., EmbedQueue]

NO_APOC = {"retention/has_apoc": "CYPHER 5\nRETURN false AS found"}
RETENTION_MS = 7 * DAY_MS
COUNTS = "CYPHER 5 MATCH (j:EmbedJob) RETURN j.kind AS kind, count(*) AS n"
ARCHIVE = "CYPHER 5 MATCH (a:EmbedArchive) RETURN a {.*} AS record ORDER BY a.id"


@pytest.fixture(params=["apoc", "native"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways, which must do the same."""
    if request.param == "native":
        plant(monkeypatch, NO_APOC)
    return str(request.param)


def counts(database: Database) -> dict[str, int]:
    return {row["kind"]: row["n"] for row in database.read(COUNTS)}


def test_50000_ended_jobs_of_mixed_age_leave_exactly_the_young_ones(
    queue: EmbedQueue, jobs_db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A13, in batches. Half of them through APOC; then time passes and half of the rest goes the native way."""
    now = clock.now
    old, middle, young = now - RETENTION_MS - 1, now - RETENTION_MS + DAY_MS, now
    make_jobs(jobs_db, 20_000, status="completed", processed_at=old, kind="old")
    make_jobs(jobs_db, 5_000, first=20_000, status="failed", processed_at=old, kind="old")
    make_jobs(jobs_db, 12_500, first=25_000, status="completed", processed_at=middle, kind="middle")
    make_jobs(jobs_db, 12_500, first=37_500, status="completed", processed_at=young, kind="young")
    make_jobs(jobs_db, 500, first=50_000, kind="pending")
    make_jobs(jobs_db, 500, first=50_500, status="processing", lock_until=0, kind="processing")
    report = queue.cleanup()
    assert (report.path, report.removed, report.cutoff) == ("apoc", 25_000, now - RETENTION_MS)
    left = {"middle": 12_500, "young": 12_500, "pending": 500, "processing": 500}
    assert counts(jobs_db) == left
    assert jobs_db.read("MATCH (a:EmbedArchive) RETURN count(a) AS n")[0]["n"] == 5_000
    plant(monkeypatch, NO_APOC)
    clock.advance(2 * DAY_MS)
    with capture_logs() as logs:
        report = queue.cleanup()
    assert (report.path, report.removed) == ("native", 12_500)
    assert counts(jobs_db) == {name: n for name, n in left.items() if name != "middle"}
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == ["cleanup_without_apoc"]


def test_a_clean_up_in_turns_removes_the_same(
    queue: EmbedQueue, jobs_db: Database, clock: Clock, path: str
) -> None:
    """A turn removes so many and says whether there is more. Guard: `most` in retention.cleanup."""
    make_jobs(jobs_db, 4_500, status="completed", processed_at=clock.now - RETENTION_MS - 1)
    turns = [queue.cleanup(most=2_000)]
    while turns[-1].more:
        turns.append(queue.cleanup(most=2_000))
    assert [(turn.path, turn.removed) for turn in turns] == [(path, 2_000), (path, 2_000), (path, 500)]
    assert all_jobs(jobs_db) == {}


def test_no_statement_of_a_clean_up_has_more_to_do_than_its_deadline_allows(
    services: LocalServices, jobs_db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are, without a bound of the caller. Guard: `JOBS_PER_STATEMENT`; with one statement for all,
    the server ends a large clean-up after a minute, when not all is done."""
    asked: list[int] = []

    class Watched(Database):
        def autocommit(self, query: str, **options: Any) -> list[Record]:
            if "params" in options:
                asked.append(options["params"]["limit"])
            return super().autocommit(query, **options)

    monkeypatch.setattr(retention, "JOBS_PER_STATEMENT", 1_000)
    make_jobs(jobs_db, 2_500, status="completed", processed_at=clock.now - RETENTION_MS - 1)
    with Watched(services.jobs.address) as database:
        report = retention.cleanup(database, retention_days=7, archive_days=0, now=clock.now)
    assert report.removed == 2_500
    assert asked == [1_000] * 3


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_a_job_is_removed_when_it_is_older_than_the_retention_and_not_before(
    queue: EmbedQueue, jobs_db: Database, clock: Clock, path: str, status: str
) -> None:
    """A13, to the millisecond: exactly as old as the retention stays."""
    for n, age in enumerate([RETENTION_MS - 1, RETENTION_MS, RETENTION_MS + 1]):
        make_jobs(jobs_db, 1, first=n, status=status, processed_at=clock.now - age)
    report = queue.cleanup()
    assert (report.path, report.removed) == (path, 1)
    assert set(all_jobs(jobs_db)) == {"job-0", "job-1"}
    clock.advance(1)
    assert queue.cleanup().removed == 1
    assert set(all_jobs(jobs_db)) == {"job-0"}


def test_what_has_not_ended_stays_whatever_its_age(queue: EmbedQueue, jobs_db: Database, path: str) -> None:
    """A13. A job that was queued again after it had ended counts as what it is now."""
    ancient = BEGINNING - 1_000 * DAY_MS
    make_jobs(jobs_db, 1, first=0, at=ancient)
    make_jobs(jobs_db, 1, first=1, at=ancient, status="processing", lock_until=ancient)
    make_jobs(jobs_db, 1, first=2, at=ancient, processed_at=ancient)
    before = all_jobs(jobs_db)
    report = queue.cleanup()
    assert (report.path, report.removed) == (path, 0)
    assert all_jobs(jobs_db) == before


def test_an_empty_database_is_clean(queue: EmbedQueue, path: str) -> None:
    report = queue.cleanup()
    assert (report.path, report.removed, report.archive_purged, report.leases_pruned) == (path, 0, 0, 0)


def test_failed_jobs_leave_a_slim_record_that_is_purged_at_its_age(
    make_queue: MakeQueue, jobs_db: Database, clock: Clock, path: str
) -> None:
    """A13. EMBED_JOB_ARCHIVE_DAYS counts from the failure."""
    queue = make_queue(embed_job_archive_days=10)
    (created,) = queue.enqueue(request())
    work = running(queue)
    queue.fail(work.token, failures(work.jobs, ErrorCategory.PERMANENT))
    jobs_db.write("MATCH (j:EmbedJob) SET j.error = $long", long="x" * 5_000)
    failed_at = clock.now
    clock.advance(RETENTION_MS + 1)
    assert queue.cleanup().path == path
    (row,) = jobs_db.read(ARCHIVE)
    record = row["record"]
    assert record.items() >= {"id": created.id, "entity_uid": request().entity_uid, "attempts": 1}.items()
    assert (record["failure_reason"], record["error_category"]) == ("permanent_error", "PERMANENT")
    assert (record["failed_at"], record["archived_at"]) == (failed_at, clock.now)
    assert record["error"] == "x" * 200
    assert "error_stack" not in record
    clock.advance(3 * DAY_MS - 1)
    assert queue.cleanup().archive_purged == 0
    clock.advance(1)
    assert queue.cleanup().archive_purged == 1
    assert jobs_db.read(ARCHIVE) == []


def test_no_record_is_kept_where_none_is_wanted(make_queue: MakeQueue, jobs_db: Database, path: str) -> None:
    queue = make_queue(embed_job_archive_days=0)
    make_jobs(jobs_db, 2, status="failed", processed_at=BEGINNING - RETENTION_MS - 1)
    report = queue.cleanup()
    assert (report.path, report.removed) == (path, 2)
    assert jobs_db.read(ARCHIVE) == []


def test_a_job_that_failed_again_after_its_archiving_has_one_record(
    queue: EmbedQueue, jobs_db: Database, path: str
) -> None:
    """The ids are unique among records: archiving the same id again must not fail the batch."""
    for _ in range(2):
        make_jobs(jobs_db, 1, status="failed", processed_at=BEGINNING - RETENTION_MS - 1)
        report = queue.cleanup()
        assert (report.path, report.removed) == (path, 1)
    assert len(jobs_db.read(ARCHIVE)) == 1


def test_ended_leases_are_kept_for_a_day_and_open_ones_for_ever(
    queue: EmbedQueue, jobs_db: Database, clock: Clock
) -> None:
    queue.enqueue([request(n) for n in range(20)])
    ended, unfinished = running(queue), running(queue)
    queue.complete(ended.token, ended.ids)
    clock.advance(DAY_MS)
    assert queue.cleanup().leases_pruned == 0
    clock.advance(1)
    assert queue.cleanup().leases_pruned == 1
    assert [row["token"] for row in jobs_db.read("MATCH (l:EmbedLease) RETURN l.token AS token")] == [
        unfinished.token
    ]


# -- what goes wrong ---------------------------------------------------------------------------------------


def test_a_batch_that_fails_is_an_error_with_its_message(
    queue: EmbedQueue, jobs_db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A13: APOC swallows the errors of its batches."""
    plant(monkeypatch, {"retention/remove": "CYPHER 5\nUNWIND $_batch AS row RETURN 1 / 0 AS removed"})
    make_jobs(jobs_db, 3, status="completed", processed_at=clock.now - RETENTION_MS - 1)
    with pytest.raises(CleanupFailed, match=r"1 of 1 clean-up batches failed: .*by zero"):
        queue.cleanup()
    assert len(all_jobs(jobs_db)) == 3


def test_a_clean_up_that_waits_for_a_lock_ends_in_bounded_time(
    queue: EmbedQueue, jobs_db: Database, queue_settings: Callable[..., Settings], clock: Clock
) -> None:
    """A13. The server gives a lock up after 5 s, and a batch is tried three times; the other batches are done."""
    make_jobs(jobs_db, 1_500, status="completed", processed_at=clock.now - RETENTION_MS - 1)
    stuck = all_jobs(jobs_db)["job-0"]
    with HeldDatabase(jobs_db.address) as held:
        jobs_db_row = {"id": stuck["id"]}
        held.write("CYPHER 5 MATCH (j:EmbedJob {id: $row.id}) SET j._lock = true", row=jobs_db_row)
        began = time.monotonic()
        with pytest.raises(CleanupFailed, match=r"1 of 2 clean-up batches failed: .*lock"):
            queue.cleanup()
        assert time.monotonic() - began < 40
    left = len(all_jobs(jobs_db))
    assert left in (500, 1_000)
    assert queue.cleanup().removed == left


def test_without_a_retention_there_is_no_clean_up(make_queue: MakeQueue) -> None:
    """Worker and beat do not even boot; this is for programs that use the package."""
    with pytest.raises(ValueError, match="EMBED_JOB_RETENTION_DAYS"):
        make_queue(embed_job_retention_days=None).cleanup()
