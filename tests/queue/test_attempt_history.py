"""The failed attempts of a job are kept with it, and its lost workers too."""

from collections.abc import Callable

import pytest

from neo4j_queue.database import Database
from neo4j_queue.errors import ErrorCategory, Fault, FaultKind
from neo4j_queue.queue import EmbedQueue, attempts
from neo4j_queue.queue.leases import Failure
from tests.queue.scenery import Clock, all_jobs, failures, request, requests, running

LOCK_MS = 100_000
ODD = 'tab\there, "quotes", a line\nand another, back\\slash, ü'


def overloaded(message: str = "overloaded") -> Fault:
    return Fault(ErrorCategory.TRANSIENT, FaultKind.OUTAGE, "InternalServerError", message, status=503)


def fail(queue: EmbedQueue, worker: str = "w1", message: str = "overloaded") -> None:
    work = running(queue, worker)
    queue.fail(work.token, [Failure(job, overloaded(message)) for job in work.jobs])


def history(queue: EmbedQueue) -> list[dict[str, object]]:
    (job,) = queue.jobs()
    found: list[dict[str, object]] = job.get("history", [])
    return found


def test_each_failed_attempt_is_there_with_time_error_status_and_worker(
    queue: EmbedQueue, clock: Clock
) -> None:
    """A lost worker stands between two verdicts. Fails without `j.history` in jobs/fail, or in jobs/recover_jobs."""
    queue.enqueue(request())
    fail(queue, "w1")
    clock.advance(1_000)
    running(queue, "w2")
    clock.advance(LOCK_MS + 1)
    queue.recover_stale()
    fail(queue, "w3", ODD)
    first, lost, last = history(queue)
    assert first == {
        "at": "2023-11-14T22:13:20.000Z",
        "worker": "w1",
        "error_type": "InternalServerError",
        "error_category": "TRANSIENT",
        "error_status": 503,
        "error": "overloaded",
    }
    assert (lost["worker"], lost["error_type"], lost["error"]) == ("w2", "WorkerLost", None)
    assert (last["worker"], last["error"]) == ("w3", ODD)


def test_only_the_last_attempts_are_kept(make_queue: Callable[..., EmbedQueue], clock: Clock) -> None:
    """Fails without `[-$kept..]`: a job that is replayed every day would grow without an end."""
    queue = make_queue(embed_job_max_retries=20)
    queue.enqueue(request())
    for n in range(12):
        fail(queue, message=f"{n} " + 500 * "x")
        clock.advance(60_000)
    messages = [str(attempt["error"]) for attempt in history(queue)]
    assert [message.split()[0] for message in messages] == [str(n) for n in range(2, 12)]
    assert {len(message) for message in messages} == {attempts.MESSAGE_CHARS}


def test_a_job_that_is_queued_again_keeps_them_and_one_that_is_asked_for_anew_too(
    queue: EmbedQueue, clock: Clock
) -> None:
    """A replay that fails again shows both lives."""
    queue.enqueue(request())
    work = running(queue)
    queue.fail(work.token, failures(work.jobs, ErrorCategory.PERMANENT))
    queue.retry()
    assert len(history(queue)) == 1
    work = running(queue)
    queue.fail(work.token, failures(work.jobs, ErrorCategory.PERMANENT))
    clock.advance(1_000)
    queue.enqueue(request())
    assert len(history(queue)) == 2
    work = running(queue)
    queue.complete(work.token, work.ids)
    assert len(history(queue)) == 2, "why it took so long stays known"


def test_what_is_no_attempt_leaves_nothing(queue: EmbedQueue, jobs_db: Database, clock: Clock) -> None:
    """A success, a release, a lease that never started, and a verdict of a holder that lost its lease."""
    queue.enqueue(requests(2))
    work = running(queue)
    queue.release(work.token, work.ids, overloaded())
    queue.fail(work.token, [Failure(job, overloaded()) for job in work.jobs])
    queue.lease("w1", batches=1)
    clock.advance(LOCK_MS + 1)
    assert len(queue.recover_stale()) == 2
    work = running(queue)
    queue.complete(work.token, work.ids)
    assert not [job for job in all_jobs(jobs_db).values() if "history" in job]


def test_an_answer_to_a_commit_that_was_lost_writes_no_attempt_twice(queue: EmbedQueue) -> None:
    queue.enqueue(request())
    work = running(queue)
    verdict = [Failure(job, overloaded()) for job in work.jobs]
    queue.fail(work.token, verdict)
    queue.fail(work.token, verdict)
    assert len(history(queue)) == 1


@pytest.mark.parametrize("worker", ["odd\tname", ""], ids=["a tab", "unknown"])
def test_any_name_of_a_worker_can_be_read_back(queue: EmbedQueue, worker: str) -> None:
    """Fails without `replace(…, '\\t', ' ')`: the rest of the name would be read as the error."""
    queue.enqueue(request())
    fail(queue, worker)
    (attempt,) = history(queue)
    assert (attempt["worker"], attempt["error_status"]) == (worker.replace("\t", " ") or None, 503)


def test_an_entry_of_a_person_or_of_another_version_hides_no_other(
    queue: EmbedQueue, jobs_db: Database
) -> None:
    queue.enqueue(request())
    fail(queue)
    odd = ["", "x\ty\tz", "1\tw\t{", '1\tw\t{"colour": "red"}', "1\tw\t[1]", "1\tw\tnull"]
    jobs_db.write("CYPHER 5 MATCH (j:EmbedJob) SET j.history = $odd + j.history", odd=odd)
    assert len(history(queue)) == 1
