"""Old tokens change nothing: the token proves ownership, never the name of a worker."""

from collections.abc import Callable
from typing import Any

import pytest

from neo4j_queue.database import Database
from neo4j_queue.errors import ErrorCategory
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import LeasedJob, Settlement, Verdicts
from tests.queue.scenery import (
    Clock,
    Running,
    all_jobs,
    failures,
    leased,
    request,
    requests,
    running,
    the_lease,
)

OWNER = "w1"
NOTHING = Settlement(frozenset(), (), frozenset(), frozenset())

Act = Callable[[EmbedQueue, str, tuple[LeasedJob, ...]], object]


def ids(jobs: tuple[LeasedJob, ...]) -> list[str]:
    return [job.id for job in jobs]


def lost(jobs: tuple[LeasedJob, ...]) -> Settlement:
    return Settlement(frozenset(), (), frozenset(), frozenset(ids(jobs)))


# What a holder does, and what it hears when it holds nothing any more.
ACTS: dict[str, tuple[Act, Callable[[tuple[LeasedJob, ...]], object]]] = {
    "start": (lambda q, token, jobs: q.start(token, ids(jobs)).refused, lambda _: "lost"),
    "heartbeat": (lambda q, token, jobs: q.heartbeat({token: ids(jobs)}), lambda _: {}),
    "complete": (lambda q, token, jobs: q.complete(token, ids(jobs)), lost),
    "fail": (lambda q, token, jobs: q.fail(token, failures(jobs)), lost),
    "fail for good": (lambda q, token, jobs: q.fail(token, failures(jobs, ErrorCategory.PERMANENT)), lost),
    "release": (lambda q, token, jobs: q.release(token, ids(jobs)), lambda _: 0),
    "settle": (lambda q, token, jobs: q.settle(token, Verdicts(released=ids(jobs))), lost),
    "reserve": (lambda q, token, _: q.reserve(token), lambda _: False),
}


def expire(queue: EmbedQueue, clock: Clock, work: Running) -> None:
    """The worker died: its lock ran out."""
    assert work.jobs
    clock.advance(100_001)
    queue.recover_stale()


def give_back(queue: EmbedQueue, _clock: Clock, work: Running) -> None:
    """The worker gave its jobs back."""
    queue.release(work.token, work.ids)


def take_back(queue: EmbedQueue, _clock: Clock, work: Running) -> None:
    """An operator took the jobs from it and ended its lease."""
    queue.release_jobs(work.ids)
    queue.settle(work.token, Verdicts())


def state(database: Database) -> list[Any]:
    """Everything in the jobs database that a late message must not touch: all but that it was counted as late."""
    found = database.read(
        "CYPHER 5 MATCH (n) WHERE NOT n:EmbedCounts RETURN labels(n) AS labels, n {.*} AS node ORDER BY elementId(n)"
    )
    return [(row["labels"], row["node"]) for row in found]


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("leave", [expire, give_back, take_back], ids=lambda leave: leave.__name__)
@pytest.mark.parametrize("started", [False, True], ids=["leased again", "started again"])
def test_an_old_token_changes_nothing_though_the_same_worker_holds_the_new_one(
    queue: EmbedQueue, jobs_db: Database, clock: Clock, act: str, leave: Callable[..., None], started: bool
) -> None:
    """A8."""
    queue.enqueue(requests(2))
    old = running(queue, OWNER)
    leave(queue, clock, old)
    (new,) = leased(queue, OWNER).leases
    if started:
        queue.start(new.token, new.job_ids)
    assert set(new.job_ids) == set(old.ids)
    before = state(jobs_db)
    do, answer = ACTS[act]
    assert do(queue, old.token, old.jobs) == answer(old.jobs)
    assert state(jobs_db) == before


@pytest.mark.parametrize("act", ACTS)
def test_an_unknown_token_changes_nothing(queue: EmbedQueue, jobs_db: Database, act: str) -> None:
    queue.enqueue(requests(2))
    work = running(queue)
    before = state(jobs_db)
    do, answer = ACTS[act]
    assert do(queue, "1-00000000", work.jobs) == answer(work.jobs)
    assert state(jobs_db) == before


@pytest.mark.parametrize("act", sorted(set(ACTS) - {"start", "reserve"}))
def test_the_token_of_another_live_lease_changes_nothing_of_these_jobs(
    make_queue: Callable[..., EmbedQueue], jobs_db: Database, act: str
) -> None:
    queue = make_queue(embed_batch_size=2)
    queue.enqueue(requests(4))
    mine, theirs = running(queue, OWNER), running(queue, OWNER)
    before = all_jobs(jobs_db)
    ACTS[act][0](queue, mine.token, theirs.jobs)
    assert all_jobs(jobs_db) == before


@pytest.mark.parametrize("act", ["complete", "fail"])
def test_a_verdict_needs_a_start(queue: EmbedQueue, jobs_db: Database, act: str) -> None:
    """Invariant 3: whoever gives a verdict without having won the start has asked no provider."""
    queue.enqueue(request())
    (lease,) = leased(queue).leases
    job = LeasedJob(lease.job_ids[0], "entity-00000", "mock", "v", 0, 3)
    before = state(jobs_db)
    assert ACTS[act][0](queue, lease.token, (job,)) == lost((job,))
    assert state(jobs_db) == before


def test_a_lease_is_started_once(queue: EmbedQueue) -> None:
    """The second delivery of a message asks no provider."""
    queue.enqueue(requests(2))
    work = running(queue)
    again = queue.start(work.token, work.ids)
    assert (again.jobs, again.refused) == ((), "lost")


def test_tokens_rise_and_never_repeat(queue: EmbedQueue, jobs_db: Database) -> None:
    """A8. Fails when the control node's seq does not move with each lease."""
    queue.enqueue(request())
    tokens = []
    for _ in range(5):
        (lease,) = leased(queue).leases
        tokens.append(lease.token)
        assert queue.release(lease.token, lease.job_ids) == 1
    sequence = [int(token.split("-")[0]) for token in tokens]
    assert sequence == list(range(sequence[0], sequence[0] + 5))
    assert jobs_db.read("MATCH (c:QueueControl) RETURN c.seq AS seq")[0]["seq"] == sequence[-1]
    assert all(len(token.split("-")[1]) == 8 for token in tokens)


def test_an_old_token_stays_wrong_after_the_database_was_put_back(
    queue: EmbedQueue, jobs_db: Database
) -> None:
    """A8. An older backup brings an older seq; the random half keeps tokens apart.

    Fails with tokens that are the seq alone: the restored database would give the same token again.
    """
    queue.enqueue(requests(2))
    before = jobs_db.read("MATCH (c:QueueControl) RETURN c.seq AS seq")[0]["seq"]
    old = running(queue, OWNER)
    jobs_db.write("MATCH (l:EmbedLease) DELETE l")
    jobs_db.write(
        "MATCH (j:EmbedJob) SET j.status = 'pending' "
        "REMOVE j.lease_token, j.lock_owner, j.lock_until, j.started_at, j.leased_at"
    )
    jobs_db.write("MATCH (c:QueueControl) SET c.seq = $seq", seq=before)
    new = running(queue, OWNER)
    assert new.token.split("-")[0] == old.token.split("-")[0]
    assert new.token != old.token
    unchanged = state(jobs_db)
    for name, (do, answer) in ACTS.items():
        assert do(queue, old.token, old.jobs) == answer(old.jobs), name
    assert state(jobs_db) == unchanged


def test_a_holder_hears_which_of_its_jobs_are_lost(queue: EmbedQueue) -> None:
    queue.enqueue(requests(3))
    work = running(queue)
    taken = work.ids[1]
    assert queue.release_jobs([taken]) == [taken]
    settlement = queue.complete(work.token, work.ids)
    assert settlement.completed == set(work.ids) - {taken}
    assert settlement.lost == {taken}


def test_only_the_last_verdict_of_a_lease_closes_it(queue: EmbedQueue, jobs_db: Database) -> None:
    queue.enqueue(requests(3))
    work = running(queue)
    queue.complete(work.token, work.ids[:1])
    queue.fail(work.token, failures(work.jobs[1:2]))
    assert the_lease(jobs_db, work.token)["open"] is True
    assert queue.heartbeat({work.token: work.ids}) == {work.token: 1}
    queue.release(work.token, work.ids[2:])
    lease = the_lease(jobs_db, work.token)
    assert "open" not in lease
    assert lease["finished_at"] == lease["leased_at"]
