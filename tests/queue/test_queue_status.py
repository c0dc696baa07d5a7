"""What the queue says about itself, and whose clock it goes by."""

import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import pytest
from structlog.testing import capture_logs

from neo4j_queue.database import Database
from neo4j_queue.errors import ErrorCategory, FaultKind
from neo4j_queue.jobs import Outcome, Status
from neo4j_queue.queue import EmbedQueue, counts, health
from neo4j_queue.queue.health import HealthState
from neo4j_queue.queue.leases import Completion, QueueStatus, Silent, Worker
from neo4j_queue.queue.ticks import HEARTBEAT
from neo4j_queue.schema.jobs import migrate_jobs
from neo4j_queue.settings import Settings
from tests.queue.scenery import (
    BEGINNING,
    Clock,
    all_jobs,
    failures,
    fault,
    leased,
    make_jobs,
    request,
    requests,
    running,
)

COUNTS = ("pending", "delayed", "processing", "started", "completed", "failed", "total")
# Two hours of difference would be seen; a busy machine takes seconds.
NEAR_MS = 60_000
AN_HOUR_S = 3_600
# That of the queue of these tests (conftest).
LOCK_S = 100


def counted(status: QueueStatus) -> dict[str, int]:
    return {name: getattr(status, name) for name in COUNTS}


def test_an_empty_queue_counts_zeros(queue: EmbedQueue) -> None:
    """A14."""
    status = queue.status()
    assert counted(status) == dict.fromkeys(COUNTS, 0)
    assert (status.oldest_pending_seconds, status.halted, status.paused_until) == (None, False, None)
    assert status.workers == ()
    assert status.unfinished == 0


def test_every_state_is_counted_apart(queue: EmbedQueue, jobs_db: Database, clock: Clock) -> None:
    """A14. `pending` is due now, `delayed` waits for its back-off, `started` is part of `processing`."""
    queue.enqueue(requests(10))
    work = running(queue)
    queue.complete(work.token, work.ids[:1])
    queue.fail(work.token, failures(work.jobs[1:3], ErrorCategory.PERMANENT))
    queue.fail(work.token, failures(work.jobs[3:6]))
    make_jobs(jobs_db, 5, at=BEGINNING - 10_000)
    (lease,) = queue.lease("w2", batches=1).leases
    queue.release(lease.token, lease.job_ids[:2])
    status = queue.status()
    assert counted(status) == {
        "pending": 2,
        "delayed": 3,
        "processing": 7,
        "started": 4,
        "completed": 1,
        "failed": 2,
        "total": 15,
    }
    assert status.pending + status.delayed + status.processing + status.completed + status.failed == 15
    assert status.unfinished == 12
    clock.advance(1_000)
    assert (queue.status().pending, queue.status().delayed) == (5, 0)


def test_the_oldest_due_job_tells_the_age(queue: EmbedQueue, clock: Clock) -> None:
    """A14, in seconds, whatever its priority; a job that rests is not due."""
    queue.enqueue(request(0, priority=0))
    clock.advance(1_500)
    queue.enqueue(request(1, priority=9))
    assert queue.status().oldest_pending_seconds == 1.5
    work = running(queue)
    assert queue.status().oldest_pending_seconds is None
    queue.fail(work.token, failures(work.jobs))
    assert queue.status().oldest_pending_seconds is None
    clock.advance(3_000)
    assert queue.status().oldest_pending_seconds == 2.0


def test_the_last_lock_tells_when_the_jobs_of_a_dead_worker_come_back(
    queue: EmbedQueue, clock: Clock
) -> None:
    """In seconds; started work counts with its lock, and the longest one counts."""
    assert queue.status().locked_seconds is None
    queue.enqueue(requests(20))
    running(queue)
    assert queue.status().locked_seconds == LOCK_S
    clock.advance(30_000)
    leased(queue)
    assert queue.status().locked_seconds == LOCK_S - 30
    clock.advance(80_000)
    assert queue.status().locked_seconds == 0
    queue.recover_stale()
    assert queue.status().locked_seconds is None


def test_counts_are_plain_integers(queue: EmbedQueue, clock: Clock) -> None:
    """A15."""
    queue.enqueue(requests(3))
    work = running(queue)
    status = queue.status()
    counts = {f.name: getattr(status, f.name) for f in fields(status) if f.name in COUNTS}
    assert {type(value) for value in counts.values()} == {int}
    assert type(queue.release(work.token, work.ids)) is int
    assert type(queue.retry_failed()) is int
    report = queue.cleanup()
    assert {type(n) for n in (report.removed, report.archive_purged, report.leases_pruned)} == {int}
    clock.advance(1)


@pytest.mark.parametrize("off_by_s", [-AN_HOUR_S, AN_HOUR_S])
def test_all_times_are_the_servers(
    jobs_db: Database,
    queue_settings: Callable[..., Settings],
    monkeypatch: pytest.MonkeyPatch,
    off_by_s: int,
) -> None:
    """A15: a client's clock an hour off changes nothing."""
    server_now = jobs_db.read("RETURN datetime.realtime().epochMillis AS now")[0]["now"]
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + off_by_s)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + off_by_s * 10**9)
    queue = EmbedQueue(jobs_db, queue_settings(embed_batch_size=1))
    queue.enqueue(requests(4))
    done, failed, held = running(queue), running(queue), running(queue)
    queue.complete(done.token, done.ids)
    queue.fail(failed.token, failures(failed.jobs))
    assert queue.recover_stale() == []
    assert queue.cleanup().removed == 0
    assert queue.heartbeat({held.token: held.ids}) == {held.token: 1}
    jobs = all_jobs(jobs_db)
    times = ("created_at", "available_at", "leased_at", "started_at", "lock_until", "processed_at")
    for job in jobs.values():
        for name in times:
            assert abs(job.get(name, server_now) - server_now) < NEAR_MS + 100_000 * (name == "lock_until")
    assert queue.pause(10, "429") - server_now < NEAR_MS + 10_000
    status = queue.status()
    assert status.oldest_pending_seconds is not None
    assert 0 <= status.oldest_pending_seconds < NEAR_MS / 1_000


def test_jobs_are_listed_by_state_and_entity_newest_first(queue: EmbedQueue, clock: Clock) -> None:
    """Newest by when they ended, or were due: `listing.time_of`."""
    ids: list[str] = []

    def listed(**selection: Any) -> list[int]:
        return [ids.index(job["id"]) for job in queue.jobs(**selection)]

    for n in range(3):
        ids += [result.id for result in queue.enqueue(request(n))]
        clock.advance(1)
    work = running(queue)
    queue.complete(work.token, ids[:1])
    clock.advance(1)
    queue.fail(work.token, failures([job for job in work.jobs if job.id == ids[1]], ErrorCategory.PERMANENT))
    for priority in (9, 0):
        clock.advance(1)
        ids += [result.id for result in queue.enqueue(request(len(ids), priority=priority))]
    assert listed() == [4, 3, 1, 0, 2]
    assert listed(limit=3) == [4, 3, 1]
    assert [listed(status=status) for status in Status] == [[4, 3], [2], [0], [1]]
    assert listed(status="pending", limit=1) == [4]
    assert [job["id"] for job in queue.jobs(entity_uid=request(1).entity_uid)] == [ids[1]]
    job = queue.job(ids[0])
    assert job is not None
    assert job["entity_uid"] == request(0).entity_uid
    assert not [name for name in job if name.startswith("_")]
    assert queue.job("no such job") is None
    with pytest.raises(ValueError, match="paused"):
        queue.jobs(status="paused")


def test_the_jobs_that_stand_for_requests_are_found_by_their_key(queue: EmbedQueue) -> None:
    queue.enqueue(requests(2))
    work = running(queue)
    queue.complete(work.token, work.ids[:1])
    states = queue.states_of(requests(3))
    assert states == {
        (request(0).entity_uid, request(0).version): "completed",
        (request(1).entity_uid, request(1).version): "processing",
    }


# -- health, shared through the database -------------------------------------------------------------------


def test_the_window_of_verdicts_is_shared_and_each_transition_is_told_once(
    queue: EmbedQueue, jobs_db: Database, queue_settings: Callable[..., Settings], clock: Clock
) -> None:
    """E1: 5 failures in a row are DEGRADED, 10 CRITICAL, one success HEALTHY again."""
    others = EmbedQueue(jobs_db, queue_settings(), clock=clock)
    make_jobs(jobs_db, 11, at=BEGINNING - 10_000)
    changes = []
    for n in range(10):
        worker = (queue, others)[n % 2]
        work = running(worker)
        settlement = worker.fail(work.token, failures(work.jobs[:1], ErrorCategory.PERMANENT))
        worker.release(work.token, work.ids[1:])
        changes.append(settlement.health.after.state if settlement.health else None)
    told = [None] * 4 + [HealthState.DEGRADED] + [None] * 4 + [HealthState.CRITICAL]
    assert changes == told
    health = others.health()
    assert (health.state, health.consecutive_failures, health.success_rate) == (HealthState.CRITICAL, 10, 0.0)
    assert health.error_patterns == {"PERMANENT:InternalServerError": 10}
    work = running(queue)
    settlement = queue.complete(work.token, work.ids)
    assert settlement.health is not None
    assert (settlement.health.before, settlement.health.after.state) == (
        HealthState.CRITICAL,
        HealthState.DEGRADED,
    )
    assert queue.health().consecutive_failures == 0
    assert queue.health().last_success_at == clock.now


def test_a_halted_queue_is_critical(queue: EmbedQueue) -> None:
    assert queue.health().state == HealthState.HEALTHY
    queue.halt("bad key")
    health = queue.health()
    assert health.state == HealthState.CRITICAL
    assert health.reasons == ("halted: bad key",)
    queue.resume()
    assert queue.health().state == HealthState.HEALTHY


def test_halt_and_resume_are_logged_as_changes_of_health_once(queue: EmbedQueue, jobs_db: Database) -> None:
    """E1. Guard: `Control._tell_health`. Without it a halt is CRITICAL for whoever asks, and nothing says so."""
    with capture_logs() as logs:
        queue.halt("bad key")
        queue.halt("again")
        queue.resume()
        queue.resume()
        jobs_db.write(
            "MATCH (h:EmbedHealth) SET h.verdicts = [n IN range(1, 10) | 'x'], h.state = 'CRITICAL'"
        )
        queue.halt("it was CRITICAL before")
        queue.resume()
    changes = [line for line in logs if line["event"] == "health_changed"]
    assert [(line["before"], line["state"], line["log_level"]) for line in changes] == [
        ("HEALTHY", "CRITICAL", "error"),
        ("CRITICAL", "HEALTHY", "info"),
    ]
    assert changes[0]["reasons"] == ("halted: bad key",)


@pytest.mark.parametrize("ended_by", ["probe", "resume", "late resume"])
def test_a_provider_at_rest_is_a_change_of_health_at_once_and_once(
    queue: EmbedQueue, clock: Clock, ended_by: str
) -> None:
    """A quota that is used up leaves no verdict that could tell it: without `_tell_health` in `provider_failed` the log
    says nothing for as long as it lasts, and in `provider_works` and `resume` nothing of its end."""

    def quota() -> None:
        work = running(queue)
        news = queue.control.provider_failed(work.token, work.ids, fault(kind=FaultKind.QUOTA), to_open=1)
        assert news is not None
        assert news.begins
        queue.release(work.token, work.ids)

    queue.enqueue(requests(2))
    with capture_logs() as logs:
        quota()
        assert [line["state"] for line in changes(logs)] == ["DEGRADED"]
        clock.advance(61_000)
        if ended_by == "probe":
            quota()
            assert len(changes(logs)) == 1, "the second round is no change"
            clock.advance(121_000)
            assert queue.control.provider_works(running(queue).token) == "quota"
        else:
            clock.advance(-60_000 if ended_by == "resume" else 0)
            queue.resume()
    assert [(line["before"], line["state"], line["log_level"]) for line in changes(logs)] == [
        ("HEALTHY", "DEGRADED", "warning"),
        ("DEGRADED", "HEALTHY", "info"),
    ]
    assert changes(logs)[0]["reasons"][0].startswith("at rest, a probe goes out by itself: quota")


def changes(logs: Sequence[Any]) -> list[Any]:
    return [line for line in logs if line["event"] == "health_changed"]


def test_a_rate_limit_is_no_change_of_health(queue: EmbedQueue) -> None:
    queue.enqueue(requests(1))
    work = running(queue)
    with capture_logs() as logs:
        queue.control.provider_failed(work.token, work.ids, fault(kind=FaultKind.RATE_LIMIT), to_open=1)
    assert changes(logs) == []


@pytest.mark.parametrize(("failed", "lines"), [(1, 0), (2, 0), (3, 1), (4, 1)])
def test_a_success_after_a_short_streak_is_a_recovery_in_the_log(
    queue: EmbedQueue, failed: int, lines: int
) -> None:
    """Too short to change the state. Fails without `_streak_ended`: below five failures there is no line."""
    queue.enqueue(requests(failed + 1))
    work = running(queue)
    with capture_logs() as logs:
        for job in work.jobs[:failed]:
            health.announce(queue.fail(work.token, failures([job])).health)
        health.announce(queue.complete(work.token, [work.jobs[-1].id]).health)
    told = [line for line in logs if line["event"] == "embedding_recovered"]
    assert [(line["failures_in_a_row"], line["log_level"]) for line in told] == [(failed, "info")] * lines
    assert changes(logs) == []


def test_a_rate_limit_that_does_not_pass_is_a_change_of_health(queue: EmbedQueue, clock: Clock) -> None:
    """Nothing but 429: with the fifth rest in a row, and its end. Fails without `RATE_LIMIT_ROUNDS`."""
    queue.enqueue(requests(1))
    with capture_logs() as logs:
        for _ in range(6):
            work = running(queue)
            queue.control.provider_failed(work.token, work.ids, fault(kind=FaultKind.RATE_LIMIT), to_open=1)
            queue.release(work.token, work.ids)
            clock.advance(61_000)
        work = running(queue)
        queue.control.provider_works(work.token)
    assert [line["state"] for line in changes(logs)] == ["DEGRADED", "HEALTHY"]
    assert changes(logs)[0]["reasons"][0].startswith("rate limited 5 times in a row: rate_limit: ")


def test_failures_of_last_night_are_no_outage_now(queue: EmbedQueue, clock: Clock) -> None:
    """Fails without `last_verdict_at`: CRITICAL until the next success."""
    queue.enqueue(requests(10))
    work = running(queue)
    queue.fail(work.token, failures(work.jobs, ErrorCategory.PERMANENT))
    assert queue.health().state == HealthState.CRITICAL
    clock.advance(health.WINDOW_AGES_MS)
    assert queue.health().state == HealthState.CRITICAL
    clock.advance(1)
    assert queue.health().state == HealthState.HEALTHY


def test_the_window_keeps_the_last_hundred(queue: EmbedQueue, jobs_db: Database) -> None:
    jobs_db.write("MATCH (h:EmbedHealth) SET h.verdicts = [n IN range(1, 99) | 'ok']")
    queue.enqueue(requests(2))
    work = running(queue)
    queue.fail(work.token, failures(work.jobs))
    health = queue.health()
    assert (health.verdicts, health.success_rate, health.consecutive_failures) == (100, 0.98, 2)


@pytest.mark.parametrize("back_ms", [0, 1, 3_600_000])
def test_a_clock_that_was_set_back_is_found(queue: EmbedQueue, clock: Clock, back_ms: int) -> None:
    """A restore on another host, a failover to a leader with another clock."""
    assert queue.control.clock_set_back_ms() == 0
    queue.enqueue(requests(1))
    work = running(queue)
    queue.complete(work.token, work.ids)
    clock.advance(-back_ms)
    assert queue.control.clock_set_back_ms() == back_ms


LABELS = """
CYPHER 5
MATCH (j:EmbedJob)
RETURN j.status AS status, [label IN labels(j) WHERE label <> 'EmbedJob'] AS labels, count(*) AS jobs
"""
RIGHT = {
    "pending": [],
    "processing": [],
    "completed": ["EmbedCompleted"],
    "failed": ["EmbedFailed"],
}


def labelled_rightly(database: Database) -> bool:
    return all(row["labels"] == RIGHT[row["status"]] for row in database.read(LABELS))


def test_what_another_version_did_not_label_is_put_right_by_the_clean_up(
    queue: EmbedQueue, jobs_db: Database, clock: Clock
) -> None:
    """A worker of an older version ends jobs during a rolling upgrade. Guard: `counts.mend` in the clean-up."""
    make_jobs(jobs_db, 30, status="completed", processed_at=clock.now - 5)
    make_jobs(jobs_db, 20, first=30, status="failed", processed_at=clock.now - 5)
    assert (queue.status().completed, queue.status().failed, queue.status().pending) == (0, 0, 50)
    assert queue.cleanup().labels_mended == 50
    assert (queue.status().completed, queue.status().failed, queue.status().pending) == (30, 20, 0)
    assert labelled_rightly(jobs_db)
    make_jobs(jobs_db, 10, first=50, status="completed", processed_at=clock.now)
    assert (queue.cleanup().labels_mended, queue.cleanup().labels_mended) == (10, 0), "those that ended since"


def test_many_jobs_are_labelled_in_pages_and_turns(
    queue: EmbedQueue, jobs_db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "PAGE", 10)
    for n in range(5):
        make_jobs(jobs_db, 10, first=10 * n, status="completed", processed_at=clock.now - 500_000 + n)
    turns = []
    while (done := counts.mend(jobs_db, 20)).more:
        turns.append(done.labels)
    assert sum(turns) + done.labels == 50
    assert len(turns) >= 2
    assert labelled_rightly(jobs_db)


def test_a_migration_puts_right_all_labels_also_those_that_are_too_many(
    queue: EmbedQueue, jobs_db: Database
) -> None:
    """A database of version 1, and one that an older program wrote to after the migration."""
    make_jobs(jobs_db, 30, status="completed", processed_at=1)
    make_jobs(jobs_db, 10, first=30)
    jobs_db.write("MATCH (j:EmbedJob) WHERE j.status = 'pending' SET j:EmbedFailed:EmbedCompleted")
    jobs_db.write("MATCH (c:QueueControl) SET c.schema_version = 1")
    assert migrate_jobs(jobs_db).ok
    assert labelled_rightly(jobs_db)
    assert (queue.status().completed, queue.status().unfinished) == (30, 10)


def test_a_worker_that_missed_its_heartbeat_is_said_to_be_silent(queue: EmbedQueue, clock: Clock) -> None:
    """At once, though its slots count for two heartbeats more. Where nobody asks, silence says nothing. Fails without
    `asked_at` in jobs/silent_workers: without beat all workers are called silent."""
    both = [Worker("dead@test", 2, leases=1), Worker("living@test", 2)]
    for _ in range(2):
        queue.ticks.take(HEARTBEAT, 0)
        queue.census.record(both)
        assert queue.status().silent == ()
        clock.advance(30_000)
    clock.advance(10_000)
    assert queue.status().silent == (), "nobody has asked"
    queue.ticks.take(HEARTBEAT, 0)
    queue.census.record(both[1:])
    status = queue.status()
    assert status.silent == (Silent("dead@test", 40_000, leases=1),)
    assert [worker.name for worker in status.workers] == ["dead@test", "living@test"]
    clock.advance(60_000)
    queue.ticks.take(HEARTBEAT, 0)
    queue.census.record(both[1:])
    status = queue.status()
    assert [worker.name for worker in status.workers] == ["living@test"]
    assert [worker.name for worker in status.silent] == ["dead@test"], "and it is not forgotten yet"


def test_a_silent_worker_says_how_many_batches_it_holds(queue: EmbedQueue, clock: Clock) -> None:
    """A killed worker beside a living one was named by nothing for five minutes, while its jobs waited for their locks.
    Guard: `holds` in jobs/silent_workers."""
    queue.enqueue(requests(3))
    (lease,) = queue.lease("control@test", batches=1).leases
    queue.start(lease.token, lease.job_ids, worker="dead@test")
    both = [Worker("dead@test", 2, leases=1), Worker("living@test", 2)]
    queue.ticks.take(HEARTBEAT, 0)
    queue.census.record(both)
    clock.advance(40_000)
    queue.ticks.take(HEARTBEAT, 0)
    queue.census.record(both[1:])
    assert queue.status().silent == (Silent("dead@test", 40_000, leases=1, holds=1),)
    queue.release(lease.token, lease.job_ids)
    assert queue.status().silent == (Silent("dead@test", 40_000, leases=1, holds=0),)


def test_the_leases_of_a_worker_are_those_that_it_runs_now(queue: EmbedQueue) -> None:
    """Fails with the number of the census: "leases 0" beside ten jobs that run, until the next heartbeat."""
    queue.enqueue(requests(1))
    queue.census.record([Worker("w1", 2), Worker("w2", 2, leases=1)])
    work = running(queue, "w1")
    assert [(worker.name, worker.leases) for worker in queue.status().workers] == [("w1", 1), ("w2", 0)]
    queue.complete(work.token, work.ids)
    assert [worker.leases for worker in queue.status().workers] == [0, 0]


@pytest.mark.parametrize("outcome", [Outcome.ALREADY_CURRENT, Outcome.SUPERSEDED])
def test_jobs_that_end_without_a_vector_are_progress(
    queue: EmbedQueue, clock: Clock, outcome: Outcome
) -> None:
    """A queue that drains by copies, or after a restore, does not stand still. Fails when `last_success_at` alone is
    looked at."""
    queue.enqueue(requests(2))
    work = running(queue)
    assert not queue.ended_within(600_000)
    queue.complete(work.token, [Completion(each, outcome) for each in work.ids])
    assert queue.health().last_success_at is None
    assert queue.ended_within(600_000)
    clock.advance(600_001)
    assert not queue.ended_within(600_000)
