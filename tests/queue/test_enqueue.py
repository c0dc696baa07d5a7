"""Enqueue: one job per key, however many callers ask and however often."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest

from neo4j_queue.database import Database
from neo4j_queue.errors import ErrorCategory
from neo4j_queue.jobs import KEY_BYTES_MAX, EnqueueResult, JobRequest
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.embed_queue import PAGE
from neo4j_queue.settings import Settings
from tests.queue.interleaving import BLOCKED, HeldDatabase
from tests.queue.scenery import (
    BEGINNING,
    Clock,
    CountingDatabase,
    all_jobs,
    failures,
    request,
    requests,
    running,
)
from tests.waiting import wait_until

NEW = {"status": "pending", "priority": 1, "attempts": 0, "max_attempts": 3, "crashes": 0, "est_tokens": 7}


def outcomes(results: list[EnqueueResult]) -> list[str]:
    return [str(result.outcome) for result in results]


def test_a_new_job_is_created_and_its_repeat_is_a_duplicate_of_it(
    queue: EmbedQueue, jobs_db: Database
) -> None:
    """A1."""
    wanted = request(est_tokens=7)
    (first,) = queue.enqueue(wanted)
    (again,) = queue.enqueue(wanted)
    assert (str(first.outcome), str(again.outcome)) == ("created", "duplicate")
    assert first.id == again.id
    (job,) = all_jobs(jobs_db).values()
    key = {"entity_uid": wanted.entity_uid, "model": wanted.model, "version": wanted.version}
    times = {"created_at": BEGINNING, "available_at": BEGINNING}
    job.pop("_lock")
    assert job == {"id": first.id, **key, **NEW, **times}


def test_another_version_or_model_of_an_entity_is_another_job(queue: EmbedQueue) -> None:
    results = queue.enqueue([JobRequest("e", m, v) for m in ("m1", "m2") for v in ("v1", "v2")])
    assert outcomes(results) == ["created"] * 4
    assert len({result.id for result in results}) == 4


def test_32_enqueues_of_one_key_at_once_make_one_job(queue: EmbedQueue, jobs_db: Database) -> None:
    """A1. Fails without the uniqueness of (entity_uid, model, version): see test_queue_races.py."""
    together = Barrier(32)

    def enqueue(_: int) -> EnqueueResult:
        together.wait(30)
        (result,) = queue.enqueue(request())
        return result

    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(enqueue, range(32)))
    assert sorted(outcomes(results)) == ["created"] + ["duplicate"] * 31
    assert {result.id for result in results} == set(all_jobs(jobs_db))


def test_a_thousand_in_one_call_are_one_transaction(
    jobs_db: Database, queue_settings: Callable[..., Settings]
) -> None:
    """A2."""
    with CountingDatabase(jobs_db.address) as counting:
        queue = EmbedQueue(counting, queue_settings())
        results = queue.enqueue(requests(1_000))
        assert outcomes(results) == ["created"] * 1_000
        assert counting.calls == 1
    assert [jobs_db_job["entity_uid"] for jobs_db_job in _in_order(jobs_db, results)] == [
        wanted.entity_uid for wanted in requests(1_000)
    ]


def _in_order(database: Database, results: list[EnqueueResult]) -> list[dict[str, str]]:
    jobs = all_jobs(database)
    return [jobs[result.id] for result in results]


def test_more_than_a_page_in_one_call(queue: EmbedQueue, jobs_db: Database) -> None:
    results = queue.enqueue(iter(requests(PAGE + 1)))
    assert outcomes(results) == ["created"] * (PAGE + 1)
    assert len(all_jobs(jobs_db)) == PAGE + 1


def test_repeats_inside_a_batch_get_the_first_ones_job(queue: EmbedQueue, jobs_db: Database) -> None:
    """A2. The job has the highest priority that was asked for."""
    a, b = request(0), request(1)
    results = queue.enqueue([a, b, request(0, priority=5), b])
    assert outcomes(results) == ["created", "created", "duplicate", "duplicate"]
    assert results[0].id == results[2].id
    assert results[1].id == results[3].id
    jobs = all_jobs(jobs_db)
    assert {uid: job["priority"] for uid, job in ((j["entity_uid"], j) for j in jobs.values())} == {
        a.entity_uid: 5,
        b.entity_uid: 1,
    }


def test_no_requests_run_no_query(jobs_db: Database, queue_settings: Callable[..., Settings]) -> None:
    """A2."""
    with CountingDatabase(jobs_db.address) as counting:
        assert EmbedQueue(counting, queue_settings()).enqueue([]) == []
        assert counting.calls == 0


@pytest.mark.parametrize(("asked", "stored"), [(-3, 0), (0, 0), (9, 9), (12, 9)])
def test_a_priority_outside_the_scale_is_its_nearest_end(
    queue: EmbedQueue, jobs_db: Database, asked: int, stored: int
) -> None:
    """Priorities beyond 9 would never be leased: the lease asks for 9 to 0."""
    queue.enqueue(request(priority=asked))
    assert [job["priority"] for job in all_jobs(jobs_db).values()] == [stored]


def test_a_failed_job_is_queued_again_as_if_new(queue: EmbedQueue, jobs_db: Database, clock: Clock) -> None:
    """A3."""
    (created,) = queue.enqueue(request(est_tokens=3))
    work = running(queue)
    clock.advance(100_001)
    queue.recover_stale()
    work = running(queue)
    queue.fail(work.token, failures(work.jobs, ErrorCategory.PERMANENT))
    failed = all_jobs(jobs_db)[created.id]
    # The verdict has forgotten the crash.
    assert (failed["status"], failed["attempts"], failed["crashes"]) == ("failed", 1, 0)
    clock.advance(5_000)
    (result,) = queue.enqueue(request(est_tokens=7))
    assert (result.id, str(result.outcome)) == (created.id, "requeued")
    job = all_jobs(jobs_db)[created.id]
    job.pop("_lock")
    # What went wrong before is told as long as the job is there.
    assert len(job.pop("history")) == 2
    key = {name: getattr(request(), name) for name in ("entity_uid", "model", "version")}
    times = {"created_at": BEGINNING, "available_at": clock.now}
    assert job == {"id": created.id, **key, **NEW, **times}


def test_a_completed_job_is_a_duplicate_and_with_force_runs_again(
    queue: EmbedQueue, jobs_db: Database, clock: Clock
) -> None:
    """A3."""
    (created,) = queue.enqueue(request())
    work = running(queue)
    queue.complete(work.token, work.ids)
    assert outcomes(queue.enqueue(request())) == ["duplicate"]
    assert all_jobs(jobs_db)[created.id]["status"] == "completed"
    clock.advance(1)
    (result,) = queue.enqueue(request(force=True))
    assert (result.id, str(result.outcome)) == (created.id, "requeued")
    job = all_jobs(jobs_db)[created.id]
    assert (job["status"], job["available_at"]) == ("pending", clock.now)
    assert "outcome" not in job
    assert "processed_at" not in job


@pytest.mark.parametrize("force", [False, True])
def test_a_job_that_runs_or_waits_is_a_duplicate_even_with_force(
    queue: EmbedQueue, jobs_db: Database, force: bool
) -> None:
    queue.enqueue(request())
    assert outcomes(queue.enqueue(request(force=force))) == ["duplicate"]
    work = running(queue)
    before = all_jobs(jobs_db)
    assert outcomes(queue.enqueue(request(force=force))) == ["duplicate"]
    assert all_jobs(jobs_db) == before
    assert queue.complete(work.token, work.ids).completed == set(work.ids)


@pytest.mark.parametrize("state", ["pending", "processing", "completed", "failed"])
def test_a_priority_is_raised_and_never_lowered(queue: EmbedQueue, jobs_db: Database, state: str) -> None:
    """A3."""
    (created,) = queue.enqueue(request(priority=5))
    if state != "pending":
        work = running(queue)
        if state == "completed":
            queue.complete(work.token, work.ids)
        elif state == "failed":
            queue.fail(work.token, failures(work.jobs, ErrorCategory.PERMANENT))
    queue.enqueue(request(priority=2))
    assert all_jobs(jobs_db)[created.id]["priority"] == 5
    queue.enqueue(request(priority=8))
    assert all_jobs(jobs_db)[created.id]["priority"] == 8
    queue.enqueue(request(priority=3, force=True))
    assert all_jobs(jobs_db)[created.id]["priority"] == 8


def test_a_batch_of_all_kinds_answers_each_request_its_own(queue: EmbedQueue) -> None:
    queue.enqueue(request(0))
    work = running(queue)
    queue.fail(work.token, failures(work.jobs, ErrorCategory.PERMANENT))
    queue.enqueue(request(1))
    results = queue.enqueue([request(2), request(1), request(0), request(2)])
    assert outcomes(results) == ["created", "duplicate", "requeued", "duplicate"]
    assert [result.entity_uid for result in results] == [request(n).entity_uid for n in (2, 1, 0, 2)]


def test_a_job_that_failed_can_be_left_as_it_is(queue: EmbedQueue, jobs_db: Database) -> None:
    """What a sweep asks for, in the statement that queues all others. Guard: `leave_failed`; without it
    each sweep tries again what failed for good."""
    queue.enqueue(requests(2))
    work = running(queue)
    queue.fail(work.token, failures(work.jobs[:1], ErrorCategory.PERMANENT))
    queue.complete(work.token, work.ids[1:])
    before = all_jobs(jobs_db)
    results = queue.enqueue([request(0, force=True), request(1), request(2)], leave_failed=True)
    assert outcomes(results) == ["left_failed", "duplicate", "created"]
    after = all_jobs(jobs_db)
    assert {id_: after[id_] for id_ in before} == before
    assert outcomes(queue.enqueue(request(0))) == ["requeued"]


@pytest.mark.parametrize("state", ["pending", "delayed", "processing", "completed", "failed"])
def test_a_job_that_stands_can_keep_its_priority(queue: EmbedQueue, jobs_db: Database, state: str) -> None:
    """What a sweep asks for: it has found again what is queued already, and no one has asked for it anew. Seen to fail
    without `keep_priority` in `_may_change`: the job is locked."""
    (created,) = queue.enqueue(request(priority=0))
    if state != "pending":
        work = running(queue)
        if state == "delayed":
            queue.fail(work.token, failures(work.jobs))
            assert queue.status().delayed == 1
        elif state == "completed":
            queue.complete(work.token, work.ids)
        elif state == "failed":
            queue.fail(work.token, failures(work.jobs, ErrorCategory.PERMANENT))
    jobs_db.write("MATCH (j:EmbedJob) REMOVE j._lock")
    before = all_jobs(jobs_db)
    swept = request(priority=1, force=state != "completed")
    results = queue.enqueue([swept, request(1)], leave_failed=True, keep_priority=True)
    assert outcomes(results) == ["left_failed" if state == "failed" else "duplicate", "created"]
    after = all_jobs(jobs_db)
    assert after[created.id] == before[created.id], "not even locked"
    assert after[results[1].id]["priority"] == 1, "a new job gets what was asked for"
    queue.enqueue(request(priority=1))
    assert all_jobs(jobs_db)[created.id]["priority"] == 1, "anyone else raises it"


@pytest.mark.parametrize("ended", ["completed", "failed"])
def test_a_job_that_is_queued_again_has_the_priority_of_the_wish(
    queue: EmbedQueue, jobs_db: Database, ended: str
) -> None:
    """It does not stand, it is as if new. Guard: `again` in jobs/requeue; without it an edit that brings an old text
    back waits behind the backfills among which that text was embedded before."""
    (created,) = queue.enqueue(request(priority=0))
    work = running(queue)
    if ended == "completed":
        queue.complete(work.token, work.ids)
    else:
        queue.fail(work.token, failures(work.jobs, ErrorCategory.PERMANENT))
    (again,) = queue.enqueue(request(priority=1, force=True), keep_priority=True)
    assert (again.id, outcomes([again])) == (created.id, ["requeued"])
    assert all_jobs(jobs_db)[created.id]["priority"] == 1


def test_a_priority_is_kept_by_what_the_job_is_under_its_lock(queue: EmbedQueue, jobs_db: Database) -> None:
    """A sweep saw the job completed; while it waits for the lock, a load has queued it again. Guard: `keep_priority` in
    jobs/requeue; without it such a job is raised."""
    (created,) = queue.enqueue(request(priority=0))
    work = running(queue)
    queue.complete(work.token, work.ids)
    with HeldDatabase(jobs_db.address) as held, ThreadPoolExecutor(1) as pool:
        load = EmbedQueue(held, queue.settings, clock=queue._clock)
        assert outcomes(load.enqueue(request(priority=0, force=True))) == ["requeued"]
        coming = pool.submit(queue.enqueue, request(priority=1, force=True), keep_priority=True)
        blocked = partial(jobs_db.autocommit, BLOCKED)
        wait_until(lambda: blocked()[0]["blocked"], within_s=30, what="it waits for the job")
        held.commit()
        assert outcomes(coming.result(timeout=30)) == ["duplicate"]
    job = all_jobs(jobs_db)[created.id]
    assert (job["status"], job["priority"]) == ("pending", 0)


def test_a_job_that_waits_for_its_back_off_can_be_made_due_now(
    queue: EmbedQueue, jobs_db: Database, clock: Clock
) -> None:
    """Its attempts still count. Guard: `hurried` in jobs/requeue."""
    (created,) = queue.enqueue(request())
    work = running(queue)
    queue.fail(work.token, failures(work.jobs))
    assert queue.status().delayed == 1
    assert outcomes(queue.enqueue(request())) == ["duplicate"]
    assert outcomes(queue.enqueue(request(due_now=True))) == ["requeued"]
    job = all_jobs(jobs_db)[created.id]
    assert (job["available_at"], job["attempts"]) == (clock.now, 1)
    assert outcomes(queue.enqueue(request(due_now=True))) == ["duplicate"], "it is due already"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (JobRequest("k" * 8_150, "m", "v"), "'kkk"),
        (JobRequest("\u00e9" * 4_080, "m", "v"), "8,160 bytes"),
        (JobRequest("half \ud83d", "m", "v"), "half \\ud83d"),
        (JobRequest("e", "half \ud83d", "v"), "'e'"),
    ],
)
def test_a_key_for_which_there_can_be_no_job_is_refused_by_its_name(
    queue: EmbedQueue, jobs_db: Database, wrong: JobRequest, named: str
) -> None:
    """Nothing of the call is written. Guard: `JobRequest.refusal`; without it the driver's or the index's own error
    says nothing of which entity it is."""
    with pytest.raises(ValueError, match=r"no text|at most") as error:
        queue.enqueue([request(), wrong])
    assert named in str(error.value)
    assert len(str(error.value)) < 300
    assert all_jobs(jobs_db) == {}


def test_the_longest_key_fits_the_index(queue: EmbedQueue) -> None:
    """Guard: `KEY_BYTES_MAX`; with 8,170 the index refuses it."""
    longest = JobRequest("k" * (KEY_BYTES_MAX - 2), "m", "v")
    assert longest.refusal() is None
    assert outcomes(queue.enqueue(longest)) == ["created"]
    assert JobRequest("k" * (KEY_BYTES_MAX - 1), "m", "v").refusal() is not None


def test_a_job_that_is_removed_while_the_statement_waits_is_made_anew(
    queue: EmbedQueue, jobs_db: Database
) -> None:
    """The clean-up takes it between its look-up and the answer, which another key's lock delays; its row comes back
    empty. Guard: `job["id"] is None`; without it the whole page fails with a TypeError."""
    (old,) = queue.enqueue(request(0))
    with HeldDatabase(jobs_db.address) as held, ThreadPoolExecutor(1) as pool:
        EmbedQueue(held, queue.settings, clock=queue._clock).enqueue(request(5))
        coming = pool.submit(queue.enqueue, [request(0), request(5)])
        blocked = partial(jobs_db.autocommit, BLOCKED)
        wait_until(lambda: blocked()[0]["blocked"], within_s=30, what="it waits for the other key")
        jobs_db.write("CYPHER 5 MATCH (j:EmbedJob {id: $id}) DELETE j", id=old.id)
        held.commit()
        first, second = coming.result(timeout=30)
    assert outcomes([first, second]) == ["created", "duplicate"]
    assert set(all_jobs(jobs_db)) == {first.id, second.id}
