"""Verdicts against a job: attempts, back-off, and the end of patience."""

from collections.abc import Callable
from random import Random

import pytest

from neo4j_queue.database import Database
from neo4j_queue.errors import ErrorCategory, Fault, FaultKind
from neo4j_queue.queue import EmbedQueue, failed_jobs
from neo4j_queue.queue.leases import Failure
from neo4j_queue.queue.retry_failed import Retried
from neo4j_queue.settings import Settings
from tests.queue.scenery import (
    Clock,
    CountingDatabase,
    all_jobs,
    failures,
    make_jobs,
    request,
    requests,
    running,
)

OVERLOADED = Fault(
    category=ErrorCategory.TRANSIENT,
    kind=FaultKind.OUTAGE,
    error_type="InternalServerError",
    message="overloaded",
    status=503,
    request_id="req_1",
    stack="Traceback …",
)


def fail_once(queue: EmbedQueue, error: Fault = OVERLOADED) -> int | None:
    """Runs and fails the one due job; when it may be tried again."""
    work = running(queue)
    (failed,) = queue.fail(work.token, [Failure(job, error) for job in work.jobs]).failed
    return failed.retry_at


def test_a_transient_failure_rests_one_second_then_two_and_the_third_is_final(
    queue: EmbedQueue, jobs_db: Database, clock: Clock
) -> None:
    """A10."""
    (created,) = queue.enqueue(request())
    for attempts, rest_ms in ((1, 1_000), (2, 2_000)):
        failed_at = clock.now
        assert fail_once(queue) == failed_at + rest_ms
        job = all_jobs(jobs_db)[created.id]
        assert (job["status"], job["attempts"]) == ("pending", attempts)
        assert job["available_at"] == failed_at + rest_ms
        clock.advance(rest_ms - 1)
        assert queue.lease("w1", batches=1).leases == ()
        clock.advance(1)
    assert fail_once(queue) is None
    job = all_jobs(jobs_db)[created.id]
    assert (job["status"], job["attempts"], job["failure_reason"]) == ("failed", 3, "max_retries_exceeded")
    assert job["processed_at"] == clock.now
    clock.advance(10**9)
    assert queue.lease("w1", batches=1).leases == ()


def test_what_went_wrong_stands_on_the_node(queue: EmbedQueue, jobs_db: Database) -> None:
    """A10."""
    queue.enqueue(request())
    fail_once(queue)
    (job,) = all_jobs(jobs_db).values()
    assert {name: value for name, value in job.items() if name.startswith("error")} == {
        "error": "overloaded",
        "error_category": "TRANSIENT",
        "error_type": "InternalServerError",
        "error_status": 503,
        "error_stack": "Traceback …",
    }
    for name in ("lease_token", "lock_owner", "lock_until", "started_at", "leased_at", "processed_at"):
        assert name not in job


def test_a_success_after_failures_clears_them(queue: EmbedQueue, jobs_db: Database, clock: Clock) -> None:
    queue.enqueue(request())
    fail_once(queue)
    clock.advance(1_000)
    work = running(queue)
    assert work.jobs[0].attempts == 1
    queue.complete(work.token, work.ids)
    (job,) = all_jobs(jobs_db).values()
    assert (job["status"], job["outcome"], job["attempts"]) == ("completed", "embedded", 1)
    assert not [name for name in job if name.startswith("error") or name == "failure_reason"]


def test_a_permanent_failure_is_final_at_once(queue: EmbedQueue, jobs_db: Database) -> None:
    queue.enqueue(request())
    work = running(queue)
    (failed,) = queue.fail(work.token, failures(work.jobs, ErrorCategory.PERMANENT)).failed
    assert (failed.attempts, failed.retry_at, str(failed.reason)) == (1, None, "permanent_error")
    (job,) = all_jobs(jobs_db).values()
    assert (job["status"], job["attempts"], job["failure_reason"]) == ("failed", 1, "permanent_error")


def test_the_back_off_is_spread_and_never_above_the_maximum(
    jobs_db: Database, queue_settings: Callable[..., Settings], clock: Clock
) -> None:
    """A10. 200 jobs fail for the sixth time: 32 s ± 10 % is cut at the maximum of 33 s."""
    settings = queue_settings(
        embed_job_retry_jitter_factor=0.1,
        embed_job_retry_max_delay_ms=33_000,
        embed_batch_size=200,
        embed_job_max_retries=10,
    )
    queue = EmbedQueue(jobs_db, settings, clock=clock, rng=Random(5))
    queue.enqueue(requests(200))
    jobs_db.write("MATCH (j:EmbedJob) SET j.attempts = 5")
    work = running(queue)
    failed = queue.fail(work.token, failures(work.jobs)).failed
    rests = [stored.retry_at - clock.now for stored in failed if stored.retry_at]
    assert len(rests) == 200
    assert 28_800 <= min(rests) < 30_000
    assert max(rests) == 33_000
    assert len(set(rests)) > 50


def test_without_jitter_jobs_that_fail_together_come_back_together(queue: EmbedQueue, clock: Clock) -> None:
    """A10."""
    queue.enqueue(requests(10))
    work = running(queue)
    queue.fail(work.token, failures(work.jobs))
    clock.advance(1_000)
    assert set(running(queue).ids) == set(work.ids)


@pytest.mark.parametrize("limit", [1, 2])
def test_attempts_in_all_are_a_setting(
    make_queue: Callable[..., EmbedQueue], clock: Clock, limit: int
) -> None:
    """EMBED_JOB_MAX_RETRIES counts attempts, not repeats."""
    queue = make_queue(embed_job_max_retries=limit)
    queue.enqueue(request())
    for attempt in range(1, limit + 1):
        clock.advance(60_000)
        assert (fail_once(queue) is None) is (attempt == limit)


def test_failed_jobs_are_queued_again_by_category_reason_status_id_and_limit(
    queue: EmbedQueue, jobs_db: Database, clock: Clock
) -> None:
    queue.enqueue(requests(4))
    work = running(queue)
    bad_text = Fault(ErrorCategory.PERMANENT, FaultKind.ITEM, "BadRequestError", "too long", status=400)
    unknown = Fault(ErrorCategory.PERMANENT, FaultKind.UNKNOWN, "KeyError", "'x'")
    queue.fail(work.token, [Failure(job, bad_text if n else unknown) for n, job in enumerate(work.jobs)])
    clock.advance(5_000)
    assert queue.retry_failed(category="TRANSIENT") == 0
    assert queue.retry_failed(reason="worker_lost") == 0
    assert queue.retry_failed(ids=[]) == 0
    assert queue.retry_failed(limit=0) == 0
    assert queue.retry_failed(status=400, limit=1) == 1
    assert queue.retry_failed(status=400, ids=work.ids[:1]) == 0
    assert queue.retry_failed(ids=work.ids[:1]) == 1
    assert queue.retry_failed(ids=[*work.ids, "no such job"], limit=1) == 1, "one of those that are failed"
    assert queue.retry_failed(category="PERMANENT", reason="permanent_error") == 1
    for job in all_jobs(jobs_db).values():
        assert (job["status"], job["attempts"], job["crashes"]) == ("pending", 0, 0)
        assert job["available_at"] == clock.now
        left = [n for n in job if n.startswith("error") or n in ("failure_reason", "processed_at", "outcome")]
        assert left == []


def test_a_filter_that_matches_late_looks_at_each_failed_job_once(
    queue_settings: Callable[..., Settings], jobs_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: `failed_ids` goes on where it stood. Without it the first ten are looked at again without an end."""
    monkeypatch.setattr(failed_jobs, "STEPS", 10)
    for n in range(10):
        make_jobs(jobs_db, 10, first=10 * n, status="failed", error_status=400, processed_at=1_000 + n)
    make_jobs(jobs_db, 25, first=100, status="failed", error_status=503, processed_at=2_000)
    with CountingDatabase(jobs_db.address) as counting:
        queue = EmbedQueue(counting, queue_settings())
        assert queue.retry_failed(status=503, limit=20) == 20
        # Eleven steps of two looks, and the retry.
        assert counting.calls == 23
        assert queue.retry_failed(status=503) == 5, "all of one moment are found"
        assert queue.retry_failed() == 100
        assert queue.retry_failed() == 0


def test_a_retry_leaves_jobs_that_were_made_for_other_entities(queue: EmbedQueue, jobs_db: Database) -> None:
    """Their entities are of another graph, label or key: workers of the settings in force would end them for that. A
    job that does not tell is retried. Fails without `made_for` in jobs/retry_failed."""
    control = "MATCH (c:QueueControl {name: 'embedding'}) SET c.entities = $entities"
    made: list[str | None] = [None, "books", "people"]
    for n, entities in enumerate(made):
        jobs_db.write(control, entities=entities)
        queue.enqueue(request(n))
    work = running(queue)
    queue.fail(work.token, failures(work.jobs, ErrorCategory.PERMANENT))
    assert queue.retry() == Retried(2, left=1)
    jobs = {job["entity_uid"]: job for job in all_jobs(jobs_db).values()}
    assert [jobs[request(n).entity_uid]["status"] for n in range(3)] == ["pending", "failed", "pending"]
    # Asked for anew, it is made for the entities in force.
    queue.enqueue(request(1))
    assert all_jobs(jobs_db)[jobs[request(1).entity_uid]["id"]]["made_for"] == "people"
