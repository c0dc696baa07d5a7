"""Giving jobs back: unjudged, due at once, at their old place."""

from collections.abc import Callable

from neo4j_queue.database import Database
from neo4j_queue.errors import ErrorCategory
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import Verdicts, Worker
from neo4j_queue.settings import Settings
from tests.queue.scenery import (
    Clock,
    CountingDatabase,
    all_jobs,
    failures,
    fault,
    leased,
    requests,
    running,
    the_lease,
)


def test_only_own_jobs_are_released_and_counted(
    make_queue: Callable[..., EmbedQueue], jobs_db: Database
) -> None:
    """A9."""
    queue = make_queue(embed_batch_size=2)
    queue.enqueue(requests(4))
    mine, theirs = running(queue, "w1"), running(queue, "w2")
    assert queue.release(mine.token, [*mine.ids, *theirs.ids, "no such job"]) == 2
    status = {job["id"]: job["status"] for job in all_jobs(jobs_db).values()}
    assert status == {**dict.fromkeys(mine.ids, "pending"), **dict.fromkeys(theirs.ids, "processing")}


def test_releasing_nothing_runs_no_query(jobs_db: Database, queue_settings: Callable[..., Settings]) -> None:
    """A9."""
    with CountingDatabase(jobs_db.address) as counting:
        assert EmbedQueue(counting, queue_settings()).release("1-00000000", []) == 0
        assert counting.calls == 0


def test_ten_rounds_of_lease_and_release_charge_nothing(
    queue: EmbedQueue, jobs_db: Database, clock: Clock
) -> None:
    """A9. Invariant 6."""
    queue.enqueue(requests(2))
    before = all_jobs(jobs_db)
    for round_number in range(10):
        clock.advance(100)
        (lease,) = leased(queue).leases
        if round_number % 2:
            queue.start(lease.token, lease.job_ids)
        assert queue.release(lease.token, lease.job_ids) == 2
    assert all_jobs(jobs_db) == before


def test_released_jobs_go_back_to_their_old_place(
    make_queue: Callable[..., EmbedQueue], clock: Clock
) -> None:
    queue = make_queue(embed_batch_size=1)
    ids = []
    for number in range(3):
        ids.append(queue.enqueue(requests(3)[number])[0].id)
        clock.advance(10)
    (first,) = leased(queue).leases
    assert first.job_ids == (ids[0],)
    queue.release(first.token, first.job_ids)
    assert [leased(queue).leases[0].job_ids[0] for _ in range(3)] == ids


def test_a_release_may_note_the_fault_that_caused_it(queue: EmbedQueue, jobs_db: Database) -> None:
    """04-decisions: CRITICAL leaves the job pending with the error recorded, attempts untouched."""
    queue.enqueue(requests(1))
    work = running(queue)
    wrong_key = fault(ErrorCategory.CRITICAL, error_type="AuthenticationError", message="bad key", status=401)
    assert queue.release(work.token, work.ids, wrong_key) == 1
    (job,) = all_jobs(jobs_db).values()
    assert (job["status"], job["attempts"]) == ("pending", 0)
    noted = {"error": "bad key", "error_category": "CRITICAL", "error_type": "AuthenticationError"}
    assert noted.items() <= job.items()
    assert job["error_status"] == 401


def test_what_was_never_judged_ends_with_the_lease(queue: EmbedQueue, jobs_db: Database) -> None:
    """A final settlement closes the lease though a job of it had no verdict; its lock brings it back."""
    queue.enqueue(requests(2))
    work = running(queue)
    settlement = queue.settle(work.token, Verdicts(released=work.ids[:1]))
    assert settlement.released == set(work.ids[:1])
    assert the_lease(jobs_db, work.token)["outcome"] == "released"
    assert all_jobs(jobs_db)[work.ids[1]]["status"] == "processing"
    assert queue.heartbeat({work.token: work.ids}) == {}


def test_who_ends_a_lease_is_told_whether_more_is_due(queue: EmbedQueue, clock: Clock) -> None:
    """What was failed just now waits for its back-off, what was given back is due at once."""
    queue.enqueue(requests(3))
    work = running(queue)
    assert queue.complete(work.token, work.ids[:1]).more_due is None
    assert queue.fail(work.token, failures(work.jobs[1:2])).more_due is None
    assert queue.complete(work.token, work.ids[2:]).more_due is False
    clock.advance(3_600_000)
    again = running(queue)
    assert queue.settle(again.token, Verdicts(released=again.ids)).more_due is True
    assert queue.settle(again.token, Verdicts(released=again.ids)).more_due is None


def test_more_is_wanted_when_few_leases_wait(make_queue: Callable[..., EmbedQueue], clock: Clock) -> None:
    """Whoever takes one of those that wait will ask, unless their messages are lost.

    Guards: `waiting` of jobs/close_lease, without which every end of a batch asks for a lease transaction; and
    `leased_at` there, without which nobody asks for as long as lost messages take to run out.
    """
    queue = make_queue(embed_batch_size=1)
    queue.census.record([Worker("w1", 4)])
    queue.enqueue(requests(20))
    leases = queue.lease("control").leases
    assert len(leases) == 8

    def end(n: int) -> bool | None:
        queue.start(leases[n].token, leases[n].job_ids)
        return queue.complete(leases[n].token, leases[n].job_ids).more_due

    assert [end(n) for n in range(7)] == [False] * 5 + [True] * 2
    leases = queue.lease("control").leases
    assert len(leases) == 7
    assert end(0) is False
    clock.advance(2_001)
    assert end(1) is True


def test_an_operator_takes_jobs_from_whoever_holds_them(queue: EmbedQueue, jobs_db: Database) -> None:
    queue.enqueue(requests(3))
    work = running(queue)
    queue.complete(work.token, work.ids[:1])
    assert queue.release_jobs([*work.ids, "no such job", work.ids[1]]) == sorted(work.ids[1:])
    assert queue.heartbeat({work.token: work.ids}) == {}
    states = {job["id"]: job["status"] for job in all_jobs(jobs_db).values()}
    assert states == {work.ids[0]: "completed", **dict.fromkeys(work.ids[1:], "pending")}


def test_a_lease_whose_jobs_an_operator_took_is_ended(
    make_queue: Callable[..., EmbedQueue], jobs_db: Database, clock: Clock
) -> None:
    """Its place is free, and what it may have sent counts against the limit. Fails with jobs/forget_texts alone: the
    lease stayed open until its lock, and `status` promised its jobs by then."""
    queue = make_queue(embed_batch_size=2, embedding_rate_limit_tokens=2)
    queue.enqueue(requests(4))
    begun, waiting = leased(queue, batches=2).leases
    queue.start(begun.token, begun.job_ids)
    queue.release_jobs(begun.job_ids[:1])
    assert the_lease(jobs_db, begun.token)["open"] is True
    queue.release_jobs([*begun.job_ids, *waiting.job_ids])
    for lease in (begun, waiting):
        ended = the_lease(jobs_db, lease.token)
        assert (ended.get("open"), ended["outcome"], ended["finished_at"]) == (None, "released", clock.now)
    assert queue.status().locked_seconds is None
    assert queue.rate_used().requests == 1, "that of the lease whose work had begun"
    assert queue.settle(begun.token, Verdicts(released=begun.job_ids)).released == set()
