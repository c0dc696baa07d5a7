"""Taking back what dead workers held."""

from collections.abc import Callable

import pytest

from neo4j_queue.database import Database
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.embed_queue import PAGE
from neo4j_queue.queue.locks import HEAL_MS
from neo4j_queue.settings import Settings
from tests.queue.scenery import (
    BEGINNING,
    Clock,
    CountingDatabase,
    all_jobs,
    failures,
    leased,
    make_jobs,
    request,
    requests,
    running,
    the_lease,
)

LOCK_MS = 100_000
START_DEADLINE_MS = 40_000


def test_an_expired_job_is_pending_again_with_its_lock_cleared(
    queue: EmbedQueue, jobs_db: Database, clock: Clock
) -> None:
    """A11. The caller gets what it needs to log: ids, owner, token."""
    (created,) = queue.enqueue(request())
    work = running(queue, "w7")
    clock.advance(LOCK_MS + 1)
    (recovered,) = queue.recover_stale()
    assert (recovered.id, recovered.entity_uid) == (created.id, request().entity_uid)
    assert (recovered.token, recovered.owner) == (work.token, "w7")
    assert (recovered.started, recovered.crashes, recovered.failed) == (True, 1, False)
    (job,) = all_jobs(jobs_db).values()
    assert (job["status"], job["attempts"], job["crashes"]) == ("pending", 0, 1)
    assert job["available_at"] == BEGINNING
    for name in ("lease_token", "lock_owner", "lock_until", "started_at", "leased_at", "processed_at"):
        assert name not in job
    assert the_lease(jobs_db, work.token)["outcome"] == "expired"
    assert running(queue).ids == work.ids


@pytest.mark.parametrize("started", [False, True])
def test_a_valid_lock_is_left_alone_to_its_last_millisecond(
    queue: EmbedQueue, jobs_db: Database, clock: Clock, started: bool
) -> None:
    """A11."""
    queue.enqueue(requests(2))
    (lease,) = leased(queue).leases
    if started:
        queue.start(lease.token, lease.job_ids)
    clock.advance(LOCK_MS if started else START_DEADLINE_MS)
    before = all_jobs(jobs_db)
    assert queue.recover_stale() == []
    assert all_jobs(jobs_db) == before
    assert the_lease(jobs_db, lease.token)["open"] is True
    clock.advance(1)
    assert len(queue.recover_stale()) == 2


def test_work_that_never_started_counts_no_crash(queue: EmbedQueue, clock: Clock) -> None:
    """A11. A message that Redis lost says nothing about the job."""
    queue.enqueue(request())
    for _ in range(6):
        leased(queue)
        clock.advance(START_DEADLINE_MS + 1)
        (recovered,) = queue.recover_stale()
        assert (recovered.started, recovered.crashes, recovered.failed) == (False, 0, False)


@pytest.mark.parametrize("limit", [0, 2])
def test_a_job_that_loses_more_workers_than_the_limit_fails(
    make_queue: Callable[..., EmbedQueue], jobs_db: Database, clock: Clock, limit: int
) -> None:
    """A11."""
    queue = make_queue(embed_job_max_crashes=limit)
    queue.enqueue(request())
    for crashes in range(1, limit + 2):
        running(queue)
        clock.advance(LOCK_MS + 1)
        (recovered,) = queue.recover_stale()
        assert (recovered.crashes, recovered.failed) == (crashes, crashes > limit)
    (job,) = all_jobs(jobs_db).values()
    assert (job["status"], job["failure_reason"], job["attempts"]) == ("failed", "worker_lost", 0)
    assert job["processed_at"] == clock.now
    assert queue.recover_stale() == []


@pytest.mark.parametrize(("pause_ms", "failed"), [(HEAL_MS - LOCK_MS - 1, True), (HEAL_MS, False)])
def test_crashes_of_long_ago_count_no_more(
    make_queue: Callable[..., EmbedQueue], clock: Clock, pause_ms: int, failed: bool
) -> None:
    """Preempted workers, or outages of the jobs database: a job that kills its workers does so again at once. Fails
    without `heal_ms`: innocent jobs end as `worker_lost`. The lock here is 100 s, so an hour heals."""
    queue = make_queue(embed_job_max_crashes=2)
    queue.enqueue(request())
    for _ in range(3):
        running(queue)
        clock.advance(LOCK_MS + 1)
        (recovered,) = queue.recover_stale()
        clock.advance(pause_ms)
    assert recovered.failed is failed
    assert recovered.crashes == (3 if failed else 1)


def test_a_verdict_forgets_the_crashes(queue: EmbedQueue, jobs_db: Database, clock: Clock) -> None:
    """The worker lived. Fails without `j.crashes = 0` in `jobs/fail`."""
    queue.enqueue(request())
    running(queue)
    clock.advance(LOCK_MS + 1)
    queue.recover_stale()
    work = running(queue)
    queue.fail(work.token, failures(work.jobs))
    (job,) = all_jobs(jobs_db).values()
    assert (job["attempts"], job["crashes"], "crashed_at" in job) == (1, 0, False)


def test_a_release_keeps_the_crashes(queue: EmbedQueue, jobs_db: Database, clock: Clock) -> None:
    """A neighbour: a rate limit or a shutdown before the text was embedded proves nothing about it."""
    queue.enqueue(request())
    running(queue)
    clock.advance(LOCK_MS + 1)
    queue.recover_stale()
    work = running(queue)
    queue.release(work.token, work.ids)
    (job,) = all_jobs(jobs_db).values()
    assert job["crashes"] == 1


def test_a_job_that_is_processing_without_any_lock_is_taken_back(
    queue: EmbedQueue, jobs_db: Database
) -> None:
    """A11. No transition leaves such a job behind; a person at a console can."""
    make_jobs(jobs_db, 3, status="processing")
    make_jobs(jobs_db, 1, first=3)
    assert sorted(job.id for job in queue.recover_stale()) == ["job-0", "job-1", "job-2"]
    assert {job["status"] for job in all_jobs(jobs_db).values()} == {"pending"}


def test_a_heartbeat_keeps_started_work_and_only_that(
    make_queue: Callable[..., EmbedQueue], clock: Clock
) -> None:
    queue = make_queue(embed_batch_size=2)
    queue.enqueue(requests(6))
    alive, silent = running(queue), running(queue)
    (waiting,) = leased(queue).leases
    clock.advance(30_000)
    beaten = queue.heartbeat(
        {alive.token: alive.ids, waiting.token: waiting.job_ids, "1-00000000": alive.ids}
    )
    assert beaten == {alive.token: 2}
    clock.advance(LOCK_MS - 30_000 + 1)
    assert sorted(job.id for job in queue.recover_stale()) == sorted([*silent.ids, *waiting.job_ids])
    clock.advance(30_000)
    assert sorted(job.id for job in queue.recover_stale()) == sorted(alive.ids)
    assert queue.heartbeat({alive.token: alive.ids}) == {}


def test_no_leases_beat_without_a_query(jobs_db: Database, queue_settings: Callable[..., Settings]) -> None:
    with CountingDatabase(jobs_db.address) as counting:
        assert EmbedQueue(counting, queue_settings()).heartbeat({}) == {}
        assert counting.calls == 0


def test_3000_stale_jobs_come_back_in_bounded_pages(
    jobs_db: Database, queue_settings: Callable[..., Settings], clock: Clock
) -> None:
    """A11."""
    lease = {"lease_token": "1-00000000", "lock_owner": "w1", "lock_until": BEGINNING - 1}
    make_jobs(jobs_db, 3_000, status="processing", started_at=BEGINNING - LOCK_MS, **lease)
    with CountingDatabase(jobs_db.address) as counting:
        recovered = EmbedQueue(counting, queue_settings(), clock=clock).recover_stale()
        assert len({job.id for job in recovered}) == len(recovered) == 3_000
        # Three full pages, one that is empty, the leases, and their texts.
        assert counting.calls == 3_000 // PAGE + 3
    assert {(job["status"], job["crashes"]) for job in all_jobs(jobs_db).values()} == {("pending", 1)}
