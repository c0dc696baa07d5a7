"""Two calls at once, with the interleaving forced on real Neo4j.

Each test holds the first transaction open until the second waits for one of its locks. It runs twice: as it is,
and without the guard that its docstring names. The run without must go wrong: so each of these is seen failing
whenever the tests run.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import pytest
from neo4j.exceptions import Neo4jError

from neo4j_queue.database import Database
from neo4j_queue.errors import ErrorCategory
from neo4j_queue.queue import EmbedQueue, attempts
from neo4j_queue.queue import embed_queue as queue_module
from neo4j_queue.queue.locks import HEAL_MS
from tests.queue.interleaving import Race, judged_before_lock, mutated, plant
from tests.queue.scenery import DAY_MS, Clock, Running, all_jobs, failures, leased, request, requests, running

T = TypeVar("T")
LOCK_MS = 100_000
START_DEADLINE_MS = 40_000
NO_APOC = {"retention/has_apoc": "CYPHER 5\nRETURN false AS found"}

Plant = Callable[[Mapping[str, str]], None]


@pytest.fixture(params=[True, False], ids=["guarded", "guard removed"])
def guarded(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch, guarded: bool) -> Plant:
    """Plants mutated statements, in the runs without the guard."""

    def plant_unless_guarded(texts: Mapping[str, str]) -> None:
        if not guarded:
            plant(monkeypatch, texts)

    return plant_unless_guarded


def only_job(database: Database) -> dict[str, object]:
    (job,) = all_jobs(database).values()
    return job


# -- recovery against those who are alive after all --------------------------------------------------------


def test_recovery_leaves_a_job_alone_whose_heartbeat_commits_meanwhile(
    queue: EmbedQueue, race: Race, jobs_db: Database, clock: Clock, without: Plant, guarded: bool
) -> None:
    """A12. Guard: the condition of jobs/recover_jobs is judged again under the lock of the job."""
    without({"jobs/recover_jobs": judged_before_lock("jobs/recover_jobs")})
    queue.enqueue(request())
    work = running(queue)
    clock.advance(LOCK_MS + 1)
    recovered = race(lambda q: q.heartbeat({work.token: work.ids}), lambda q: q.recover_stale())
    assert (recovered == []) is guarded
    assert (only_job(jobs_db)["status"] == "processing") is guarded
    assert (queue.complete(work.token, work.ids).lost == frozenset()) is guarded


def test_recovery_leaves_a_job_alone_that_completes_meanwhile(
    queue: EmbedQueue, race: Race, jobs_db: Database, clock: Clock, without: Plant, guarded: bool
) -> None:
    """A12: one terminal state. Guard: as above."""
    without({"jobs/recover_jobs": judged_before_lock("jobs/recover_jobs")})
    queue.enqueue(request())
    work = running(queue)
    clock.advance(LOCK_MS + 1)
    recovered = race(lambda q: q.complete(work.token, work.ids), lambda q: q.recover_stale())
    assert (recovered == []) is guarded
    assert (only_job(jobs_db)["status"] == "completed") is guarded


def test_recovery_leaves_a_batch_alone_that_starts_at_the_last_moment(
    queue: EmbedQueue, race: Race, clock: Clock, without: Plant, guarded: bool
) -> None:
    """Guard: as above. Without it the provider is paid for a job that another worker gets as well."""
    without({"jobs/recover_jobs": judged_before_lock("jobs/recover_jobs")})
    queue.enqueue(request())
    (lease,) = leased(queue).leases
    clock.advance(START_DEADLINE_MS)
    recovered = race(
        lambda q: q.start(lease.token, lease.job_ids), lambda q: a_moment(clock, 1, q.recover_stale)
    )
    assert (recovered == []) is guarded


def test_two_recoveries_at_once_take_a_job_back_once(
    queue: EmbedQueue, race: Race, jobs_db: Database, clock: Clock, without: Plant, guarded: bool
) -> None:
    """Invariant 12, two beats. Guard: as above. Without it the second takes the job from its next holder."""
    without({"jobs/recover_jobs": judged_before_lock("jobs/recover_jobs")})
    queue.enqueue(request())
    running(queue)
    clock.advance(LOCK_MS + 1)
    second = race(recover_and_run, lambda q: q.recover_stale())
    assert (second == []) is guarded
    assert (only_job(jobs_db)["status"] == "processing") is guarded


def test_a_lease_that_a_heartbeat_extends_meanwhile_stays_open(
    queue: EmbedQueue, race: Race, clock: Clock, without: Plant, guarded: bool
) -> None:
    """Guard: the condition of jobs/recover_leases is judged again under the lock of the lease."""
    without({"jobs/recover_leases": judged_before_lock("jobs/recover_leases", "l")})
    queue.enqueue(requests(2))
    work = running(queue)
    clock.advance(LOCK_MS + 1)
    race(lambda q: q.heartbeat({work.token: work.ids}), recover_leases)
    assert (queue.heartbeat({work.token: work.ids}) == {work.token: 2}) is guarded


def recover_jobs(queue: EmbedQueue) -> None:
    """The first transaction of a recovery."""
    text = queue_module.statement("jobs/recover_jobs")
    noted = {"met": attempts.CRASH, "kept": attempts.KEPT}
    now = queue._clock()
    queue.database.write(text, limit=10, max_crashes=3, unlocked=True, heal_ms=HEAL_MS, now=now, **noted)


def a_moment(clock: Clock, ms: int, act: Callable[[], T]) -> T:
    """Acts so much later (or earlier) than the other call: both read their time before they wait for a lock."""
    clock.advance(ms)
    return act()


def recover_leases(queue: EmbedQueue) -> None:
    """The last transaction of a recovery."""
    queue.database.write(queue_module.statement("jobs/recover_leases"), now=queue._clock())


def recover_and_run(queue: EmbedQueue) -> str:
    """The jobs are taken back and run by somebody else; his token."""
    recover_jobs(queue)
    return running(queue).token


# -- a holder against those who took over ------------------------------------------------------------------

ACTS: dict[str, Callable[[EmbedQueue, Running], object]] = {
    "complete": lambda q, work: q.complete(work.token, work.ids).completed,
    "fail": lambda q, work: q.fail(work.token, failures(work.jobs)).failed,
    "release": lambda q, work: q.release(work.token, work.ids),
    "heartbeat": lambda q, work: q.heartbeat({work.token: work.ids}),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_holder_that_waits_while_its_job_gets_a_new_one_changes_nothing(
    queue: EmbedQueue, race: Race, jobs_db: Database, clock: Clock, without: Plant, guarded: bool, act: str
) -> None:
    """Complete against recover, release against lease. Guard: the token is judged under the lock of the job."""
    without({f"jobs/{act}": judged_before_lock(f"jobs/{act}")})
    queue.enqueue(request())
    old = running(queue)
    clock.advance(LOCK_MS + 1)
    changed = race(recover_and_run, lambda q: ACTS[act](q, old))
    assert (not changed) is guarded
    job = only_job(jobs_db)
    assert (job["status"] == "processing") is (guarded or act == "heartbeat")


def test_a_lease_finds_what_a_release_gives_back_once_it_is_committed(queue: EmbedQueue, race: Race) -> None:
    """Nothing to guard: what is not committed is not pending, and nobody waits for it."""
    queue.enqueue(request())
    work = running(queue)
    result = race(lambda q: q.release(work.token, work.ids), lambda q: q.lease("w2", batches=1), waits=False)
    assert result.reason == "nothing due"
    assert running(queue, "w2").ids == work.ids


def test_an_operators_release_leaves_a_job_alone_that_completes_meanwhile(
    queue: EmbedQueue, race: Race, jobs_db: Database, without: Plant, guarded: bool
) -> None:
    """Guard: the status is judged under the lock of the job."""
    without({"jobs/release_jobs": judged_before_lock("jobs/release_jobs")})
    queue.enqueue(request())
    work = running(queue)
    released = race(lambda q: q.complete(work.token, work.ids), lambda q: q.release_jobs(work.ids))
    assert (released == []) is guarded
    assert (only_job(jobs_db)["status"] == "completed") is guarded


def test_a_message_that_is_delivered_twice_at_once_starts_once(
    queue: EmbedQueue, race: Race, without: Plant, guarded: bool
) -> None:
    """Invariant 3. Guard: the lease is judged under its lock."""
    without({"jobs/start": judged_before_lock("jobs/start", "l", "WITH l")})
    queue.enqueue(requests(2))
    (lease,) = leased(queue).leases
    second = race(
        lambda q: q.start(lease.token, lease.job_ids), lambda q: q.start(lease.token, lease.job_ids)
    )
    assert (second.refused == "lost") is guarded
    assert (second.jobs == ()) is guarded


def test_a_batch_that_starts_while_it_is_taken_back_gets_no_jobs(
    queue: EmbedQueue, race: Race, clock: Clock, without: Plant, guarded: bool
) -> None:
    """Guard: the token of each job is judged under the lock of the job."""
    without({"jobs/start": _start_that_judges_jobs_early()})
    queue.enqueue(request())
    (lease,) = leased(queue).leases
    clock.advance(START_DEADLINE_MS + 1)
    start = race(recover_jobs, lambda q: a_moment(clock, -1, lambda: q.start(lease.token, lease.job_ids)))
    assert (start.jobs == ()) is guarded


def _start_that_judges_jobs_early() -> str:
    lock, judged = "  SET j._lock = true\n", "AND j.lease_token = $token\n"
    return mutated("jobs/start", (lock, ""), (judged, judged + lock))


def test_a_heartbeat_that_waits_for_the_completion_finds_the_lease_ended(
    queue: EmbedQueue, race: Race, jobs_db: Database, clock: Clock, without: Plant, guarded: bool
) -> None:
    """Guards: the lease and its jobs are judged under their locks. One alone is enough; without both, the heartbeat
    says that the lease lives and puts a lock on a job that is done.
    """
    early = judged_before_lock("jobs/heartbeat", "l").replace("SET l._lock = true\n", "")
    in_one_go = mutated_text(early, "SET l.lock_until = until\n", "")
    without({"jobs/heartbeat": _judge_job_early(in_one_go)})
    queue.enqueue(request())
    work = running(queue)
    clock.advance(1_000)
    beaten = race(lambda q: q.complete(work.token, work.ids), lambda q: q.heartbeat({work.token: work.ids}))
    assert (beaten == {}) is guarded
    assert ("lock_until" in only_job(jobs_db)) is not guarded


def mutated_text(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


def _judge_job_early(text: str) -> str:
    lock, judged = "SET j._lock = true\n", "AND j.lease_token = lease.token\n"
    return mutated_text(mutated_text(text, lock, ""), judged, judged + lock)


# -- enqueue against the rest ------------------------------------------------------------------------------


@pytest.fixture
def uniqueness(jobs_db: Database, guarded: bool) -> Iterator[None]:
    """Takes the uniqueness of (entity_uid, model, version) away, in the run without the guard."""
    made = "FOR (j:EmbedJob) REQUIRE (j.entity_uid, j.model, j.version) IS UNIQUE"
    if not guarded:
        jobs_db.autocommit("DROP CONSTRAINT embed_job_version")
    yield
    if not guarded:
        jobs_db.autocommit("MATCH (j:EmbedJob) DELETE j")
        jobs_db.autocommit(f"CREATE CONSTRAINT embed_job_version {made}")


@pytest.mark.usefixtures("uniqueness")
def test_two_enqueues_of_one_key_at_once_make_one_job(race: Race, jobs_db: Database, guarded: bool) -> None:
    """A1. Guard: the uniqueness constraint, on which MERGE waits for the other's commit."""
    (second,) = race(lambda q: q.enqueue(request()), lambda q: q.enqueue(request()), waits=guarded)
    assert (second.outcome == "duplicate") is guarded
    assert (len(all_jobs(jobs_db)) == 1) is guarded


def test_a_second_forced_enqueue_leaves_the_first_ones_run_alone(
    queue: EmbedQueue, race: Race, jobs_db: Database, without: Plant, guarded: bool
) -> None:
    """Guard: jobs/requeue judges the status under the lock of the job. Without, a running job is reset."""
    without({"jobs/requeue": mutated("jobs/requeue", ("SET j._lock = true\n", ""))})
    queue.enqueue(request())
    work = running(queue)
    queue.complete(work.token, work.ids)

    def again_and_start(q: EmbedQueue) -> None:
        q.enqueue(request(force=True))
        running(q)

    (second,) = race(again_and_start, lambda q: q.enqueue(request(force=True)))
    assert (second.outcome == "duplicate") is guarded
    assert (only_job(jobs_db)["status"] == "processing") is guarded


def test_two_retries_at_once_leave_the_first_ones_run_alone(
    queue: EmbedQueue, race: Race, jobs_db: Database, without: Plant, guarded: bool
) -> None:
    """Guard: jobs/retry_failed judges the status under the lock of the job."""
    without({"jobs/retry_failed": judged_before_lock("jobs/retry_failed")})
    queue.enqueue(request())
    fail_for_good(queue)

    def retry_and_start(q: EmbedQueue) -> None:
        q.retry_failed()
        running(q)

    retried = race(retry_and_start, lambda q: q.retry_failed())
    assert (retried == 0) is guarded
    assert (only_job(jobs_db)["status"] == "processing") is guarded


def fail_for_good(queue: EmbedQueue) -> None:
    work = running(queue)
    queue.fail(work.token, failures(work.jobs, ErrorCategory.PERMANENT))


# -- clean-up against the living ---------------------------------------------------------------------------


@pytest.mark.parametrize("again", ["enqueue", "enqueue with force", "retry"])
@pytest.mark.parametrize("path", ["apoc", "native"])
def test_clean_up_leaves_a_job_alone_that_is_queued_again_meanwhile(
    queue: EmbedQueue,
    race: Race,
    jobs_db: Database,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    guarded: bool,
    path: str,
    again: str,
) -> None:
    """Guard: retention/remove judges the status and the age under the lock of the job. Without, a job is lost."""
    careless = {} if guarded else {"retention/remove": judged_before_lock("retention/remove")}
    plant(monkeypatch, careless | ({} if path == "apoc" else NO_APOC))
    queue.enqueue(request())
    if again == "enqueue with force":
        work = running(queue)
        queue.complete(work.token, work.ids)
    else:
        fail_for_good(queue)
    clock.advance(8 * DAY_MS)
    wanted = request(force=again == "enqueue with force")
    report = race(
        lambda q: q.retry_failed() if again == "retry" else q.enqueue(wanted), lambda q: q.cleanup()
    )
    assert report.path == path
    assert (report.removed == 0) is guarded
    assert (len(all_jobs(jobs_db)) == 1) is guarded


def test_an_enqueue_that_waits_for_the_clean_up_makes_the_job_anew(
    queue: EmbedQueue,
    race: Race,
    jobs_db: Database,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    guarded: bool,
) -> None:
    """Invariant 5: the answer names a job that stands. Guard: jobs/requeue says which jobs are gone."""
    blind = {"jobs/requeue": mutated("jobs/requeue", ("again: again", "again: coalesce(again, false)"))}
    plant(monkeypatch, NO_APOC | ({} if guarded else blind))
    queue.enqueue(request())
    fail_for_good(queue)
    clock.advance(8 * DAY_MS)
    (result,) = race(lambda q: q.cleanup(), lambda q: q.enqueue(request()))
    assert (result.outcome == "created") is guarded
    assert ([job["id"] for job in all_jobs(jobs_db).values()] == [result.id]) is guarded


@pytest.mark.parametrize("act", ["retry", "clean up"])
def test_what_waits_for_the_clean_up_finds_nothing_left(
    queue: EmbedQueue,
    race: Race,
    jobs_db: Database,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    guarded: bool,
    act: str,
) -> None:
    """Two beats; a retry of what is just being removed. Guard: the second look at the status under the lock.

    Neo4j lets a statement go on with a node that is gone once its lock is free, and its properties are null. Without
    the guard the clean-up counts it again, and the retry fails: it takes a label off a node that is gone.
    """
    name = "jobs/retry_failed" if act == "retry" else "retention/remove"
    plant(monkeypatch, NO_APOC | ({} if guarded else {name: judged_before_lock(name)}))
    queue.enqueue(request())
    fail_for_good(queue)
    clock.advance(8 * DAY_MS)
    try:
        done = race(
            lambda q: q.cleanup(), lambda q: q.retry_failed() if act == "retry" else q.cleanup().removed
        )
    except Neo4jError as error:
        done = error.code
    assert (done == 0) is guarded
    assert all_jobs(jobs_db) == {}
