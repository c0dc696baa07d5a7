"""Leases that have run out: what they still count for, before recovery closes them or where it is off."""

import pytest

from neo4j_queue.database import Database
from neo4j_queue.errors import ErrorCategory, FaultKind
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.budget import OPEN_PER_SLOT, PROBE_MARGIN_MS, STARTING_MS
from neo4j_queue.queue.leases import Worker, WorkerAnswer
from neo4j_queue.queue.orphans import HEARD_MS
from tests.queue.conftest import MakeQueue
from tests.queue.scenery import Clock, Running, all_jobs, fault, leased, requests, running, the_lease

START_DEADLINE_MS = 40_000
LOCK_MS = 100_000
HEARTBEAT_MS = 30_000
REQUEST_MS = 30_000
INTERVAL_MS = 60_000


def test_messages_that_redis_lost_stop_the_queue_for_no_longer_than_their_start_deadline(
    make_queue: MakeQueue, clock: Clock
) -> None:
    """Recovery is off, twice in a row. Without `live` in `jobs/lease_judge` the places are taken for good."""
    queue = make_queue(embed_batch_size=1, embed_job_recovery_interval=0)
    queue.enqueue(requests(20))
    for _ in range(2):
        queue.census.record([Worker("w1", 2)])
        assert len(queue.lease("beat").leases) == 2 * OPEN_PER_SLOT
        assert queue.lease("beat").reason == "no free slots"
        clock.advance(START_DEADLINE_MS + STARTING_MS)
    queue.census.record([Worker("w1", 2)])
    assert len(queue.lease("beat").leases) == 2 * OPEN_PER_SLOT


def test_work_whose_worker_died_holds_its_place_until_its_lock_runs_out(
    make_queue: MakeQueue, clock: Clock
) -> None:
    """A neighbour: leases that had started. Fails when every open lease holds a place."""
    queue = make_queue(embed_batch_size=1)
    queue.enqueue(requests(20))
    running(queue), running(queue)
    queue.census.record([Worker("w2", 1)])
    assert queue.lease("beat").reason == "no free slots"
    clock.advance(LOCK_MS)
    queue.census.record([Worker("w2", 1)])
    assert len(queue.lease("beat").leases) == OPEN_PER_SLOT


def test_a_place_is_not_given_away_while_a_start_in_time_may_still_commit(
    make_queue: MakeQueue, clock: Clock
) -> None:
    """Fails without `starting_ms`: a start at the last moment that commits later is a request too many."""
    queue = make_queue(embed_batch_size=1)
    queue.enqueue(requests(9))
    queue.census.record([Worker("w1", 1)])
    queue.lease("beat")
    clock.advance(START_DEADLINE_MS + STARTING_MS - 1)
    queue.census.record([Worker("w1", 1)])
    assert queue.lease("beat").reason == "no free slots"


def test_a_request_that_may_have_been_sent_counts_until_its_window_is_over(
    make_queue: MakeQueue, clock: Clock
) -> None:
    """A neighbour: the budget of a worker that died, as recovery would count it. Without `sent_until` in
    `jobs/lease_judge` the provider gets a request too many; with every open lease counted it is never given back."""
    queue = make_queue(embed_batch_size=1, embedding_rate_limit_tokens=1, embed_job_recovery_interval=0)
    queue.enqueue(requests(9))
    running(queue)
    clock.advance(LOCK_MS)
    assert queue.lease("w2", batches=1).reason == "no budget"
    clock.advance(queue.limits.window_ms - 1)
    assert queue.lease("w2", batches=1).reason == "no budget"
    clock.advance(1)
    assert leased(queue, "w2").leases


def test_a_lease_that_never_started_gives_its_request_back(make_queue: MakeQueue, clock: Clock) -> None:
    """A neighbour: the budget of a message that was lost. Fails when every open lease counts."""
    queue = make_queue(embed_batch_size=1, embedding_rate_limit_tokens=1)
    queue.enqueue(requests(9))
    leased(queue)
    assert queue.lease("w1", batches=1).reason == "no budget"
    clock.advance(START_DEADLINE_MS + STARTING_MS)
    assert leased(queue).leases


def test_a_message_that_comes_after_its_deadline_is_given_back(
    make_queue: MakeQueue, jobs_db: Database, clock: Clock
) -> None:
    """Its request may be another lease's by now. Fails without `expired` in `jobs/start`: both are sent."""
    queue = make_queue(embed_batch_size=1, embedding_rate_limit_tokens=1)
    queue.enqueue(requests(2))
    (late,) = leased(queue).leases
    clock.advance(START_DEADLINE_MS + STARTING_MS)
    assert leased(queue).leases
    assert queue.start(late.token, late.job_ids).refused == "expired"
    assert queue.release(late.token, late.job_ids) == 1
    assert all_jobs(jobs_db)[late.job_ids[0]]["status"] == "pending"


def outage(queue: EmbedQueue, work: Running) -> None:
    met = fault(ErrorCategory.TRANSIENT, kind=FaultKind.OUTAGE)
    assert queue.control.provider_failed(work.token, work.ids, met, to_open=1)
    queue.release(work.token, work.ids)


@pytest.mark.parametrize("started", [False, True])
def test_a_probe_that_is_lost_is_followed_by_another(
    make_queue: MakeQueue, clock: Clock, started: bool
) -> None:
    """Its message was lost, or its worker killed. Without `probe_ms` the queue is closed for the whole lock, and with
    recovery off for good."""
    queue = make_queue(embed_batch_size=2, embed_job_recovery_interval=0)
    queue.enqueue(requests(9))
    outage(queue, running(queue))
    clock.advance(60_000)
    (probe,) = leased(queue, batches=2).leases
    if started:
        assert queue.start(probe.token, probe.job_ids).probe
    assert queue.lease("w1", batches=2).reason == "probing"
    clock.advance(REQUEST_MS + PROBE_MARGIN_MS - 1)
    assert queue.lease("w1", batches=2).reason == "probing"
    clock.advance(1)
    (another,) = leased(queue, batches=2).leases
    assert len(another.job_ids) == 1


# -- orphans -----------------------------------------------------------------------------------------------


def test_what_a_worker_does_not_execute_is_taken_back_at_once(
    queue: EmbedQueue, jobs_db: Database, clock: Clock
) -> None:
    """The jobs of one lease only, and each counts a crash. Without it they are held for the whole lock."""
    queue.enqueue(requests(30))
    lost, kept, other = running(queue, "w1"), running(queue, "w1"), running(queue, "w2")
    clock.advance(HEARD_MS + 1)
    workers = [WorkerAnswer("w1", 2, up_ms=3_600_000)]
    back = queue.locks.take_back_orphans(workers, {kept.token}, queue.census.time())
    assert sorted(job.id for job in back) == sorted(lost.ids)
    assert {(job.started, job.crashes, job.owner) for job in back} == {(True, 1, "w1")}
    held = {job_id for job_id, job in all_jobs(jobs_db).items() if job["status"] == "processing"}
    assert held == {*kept.ids, *other.ids}
    assert the_lease(jobs_db, lost.token)["outcome"] == "expired"
    assert queue.complete(lost.token, lost.ids).lost == set(lost.ids)
    assert queue.locks.take_back_orphans(workers, {kept.token}, queue.census.time()) == []


def test_a_settlement_in_between_is_not_taken_back(
    queue: EmbedQueue, jobs_db: Database, clock: Clock
) -> None:
    """The lease was an orphan when it was read; expiring it then does nothing."""
    queue.enqueue(requests(3))
    work = running(queue, "w1")
    clock.advance(HEARD_MS + 1)
    queue.complete(work.token, work.ids)
    before = all_jobs(jobs_db), the_lease(jobs_db, work.token)
    assert (
        queue.locks.take_back_orphans([WorkerAnswer("w1", 1, up_ms=3_600_000)], (), queue.census.time()) == []
    )
    assert (all_jobs(jobs_db), the_lease(jobs_db, work.token)) == before


# -- locks that last long enough ---------------------------------------------------------------------------


def test_a_lock_is_extended_only_when_it_may_run_out(
    queue: EmbedQueue, jobs_db: Database, clock: Clock
) -> None:
    """Two more heartbeats, one of which may be missed. Fails without `due`, by which each heartbeat writes all jobs."""
    queue.enqueue(requests(3))
    work = running(queue)
    until = the_lease(jobs_db, work.token)["lock_until"]
    clock.advance(LOCK_MS - 2 * HEARTBEAT_MS)
    assert queue.locks.keep({work.token: work.ids}) == {work.token}
    assert the_lease(jobs_db, work.token)["lock_until"] == until
    clock.advance(1)
    assert queue.locks.keep({work.token: work.ids, "1-00000000": work.ids}) == {work.token}
    assert the_lease(jobs_db, work.token)["lock_until"] == clock.now + LOCK_MS
    assert {job["lock_until"] for job in all_jobs(jobs_db).values()} == {clock.now + LOCK_MS}
    queue.complete(work.token, work.ids)
    assert queue.locks.keep({work.token: work.ids}) == set()
