"""Leasing: who is next, and what the lease transaction judges."""

import math
from collections.abc import Callable

import pytest
import redis
from structlog.testing import capture_logs

from neo4j_queue.database import Database
from neo4j_queue.errors import FaultKind
from neo4j_queue.jobs import PRIORITIES
from neo4j_queue.pauses import LONGEST_S
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.budget import FAIR_EVERY, OPEN_PER_SLOT
from neo4j_queue.queue.leases import Worker
from tasks import census, deployment, resources, upkeep
from tests.queue.scenery import (
    Clock,
    all_jobs,
    fault,
    leased,
    make_jobs,
    request,
    requests,
    running,
    the_lease,
)

MakeQueue = Callable[..., EmbedQueue]


def uids(database: Database, ids: tuple[str, ...]) -> list[str]:
    jobs = all_jobs(database)
    return [jobs[job_id]["entity_uid"] for job_id in ids]


# -- order -------------------------------------------------------------------------------------------------


def test_the_highest_priority_goes_first_then_the_earliest(
    make_queue: MakeQueue, jobs_db: Database, clock: Clock
) -> None:
    """A5."""
    queue = make_queue(embed_batch_size=6)
    for n, priority in enumerate([1, 9, 0, 9, 1, 5]):
        queue.enqueue(request(n, priority=priority))
        clock.advance(1)
    (lease,) = leased(queue).leases
    assert uids(jobs_db, lease.job_ids) == [request(n).entity_uid for n in (1, 3, 5, 0, 4, 2)]


def test_a_lease_says_who_has_it_and_until_when(queue: EmbedQueue, jobs_db: Database, clock: Clock) -> None:
    queue.enqueue(requests(3, est_tokens=7))
    (lease,) = leased(queue, "w1@host").leases
    held = {"status": "processing", "lock_owner": "w1@host", "lease_token": lease.token}
    for job in all_jobs(jobs_db).values():
        assert held.items() <= job.items()
        assert (job["leased_at"], job["lock_until"]) == (clock.now, clock.now + 40_000)
    start = queue.start(lease.token, lease.job_ids, worker="w1@host/3")
    assert [job.id for job in start.jobs] == list(lease.job_ids)
    assert {(job.attempts, job.max_attempts, job.est_tokens) for job in start.jobs} == {(0, 3, 7)}
    node = the_lease(jobs_db, lease.token)
    assert (node["owner"], node["worker"], node["jobs"]) == ("w1@host", "w1@host/3", 3)
    assert (node["requests"], node["est_tokens"], node["lock_until"]) == (1, 21, clock.now + 100_000)


def test_no_priority_is_starved_by_a_constant_load_of_higher_ones(
    make_queue: MakeQueue, jobs_db: Database, clock: Clock
) -> None:
    """A5. Without the fair turns neither of the two is ever leased: the load fills every batch."""
    queue = make_queue(embed_batch_size=2)
    low = {result.id for result in queue.enqueue([request(0, priority=0), request(1, priority=4)])}
    make_jobs(jobs_db, 2 * FAIR_EVERY * len(PRIORITIES), at=clock.now - 10_000, priorities=1, priority=9)
    for _ in range(FAIR_EVERY * len(PRIORITIES)):
        (lease,) = leased(queue).leases
        assert len(lease.job_ids) == 2
        low -= set(lease.job_ids)
    assert low == set()


def test_between_the_fair_turns_the_highest_priority_is_served(
    make_queue: MakeQueue, jobs_db: Database
) -> None:
    """Fairness costs one batch in eight."""
    queue = make_queue(embed_batch_size=1)
    queue.enqueue([request(n, priority=p) for n, p in enumerate([9, 8] * 16)])
    served = [all_jobs(jobs_db)[leased(queue).leases[0].job_ids[0]]["priority"] for _ in range(16)]
    assert served == ([9] * (FAIR_EVERY - 1) + [8] + [9] * FAIR_EVERY)


def test_batches_are_cut_by_count_and_by_estimated_tokens(make_queue: MakeQueue) -> None:
    queue = make_queue(embed_batch_size=3, embed_batch_tokens=100)
    queue.enqueue([request(n, est_tokens=tokens) for n, tokens in enumerate([40, 40, 40, 150, 1, 1, 1, 1])])
    result = leased(queue, batches=10)
    assert [(len(lease.job_ids), lease.est_tokens) for lease in result.leases] == [
        (2, 80),
        (1, 40),
        (1, 150),
        (3, 3),
        (1, 1),
    ]


def test_no_more_batches_than_the_caller_has_slots_for(make_queue: MakeQueue, jobs_db: Database) -> None:
    queue = make_queue(embed_batch_size=2)
    queue.enqueue(requests(10))
    assert len(leased(queue, batches=3).leases) == 3
    assert queue.lease("w1", batches=0).reason == "no free slots"
    assert sum(job["status"] == "pending" for job in all_jobs(jobs_db).values()) == 4


def test_jobs_that_lost_workers_run_apart_and_are_not_starved(
    make_queue: MakeQueue, jobs_db: Database, clock: Clock
) -> None:
    """A suspect that was due first is leased first, in a batch of its own, though fresh ones fill every batch.

    Fails when batches are chosen by anything but their first job.
    """
    queue = make_queue(embed_batch_size=4, embed_job_max_crashes=1)
    (suspect,) = queue.enqueue(request(0))
    running(queue)
    clock.advance(100_001)
    queue.recover_stale()
    make_jobs(jobs_db, 20, at=clock.now - 10_000, priorities=1, priority=1)
    first, second = leased(queue).leases[0], leased(queue).leases[0]
    assert first.job_ids == (suspect.id,)
    assert len(second.job_ids) == 4


def test_an_empty_queue_has_nothing_due(queue: EmbedQueue, jobs_db: Database) -> None:
    before = jobs_db.read("MATCH (c:QueueControl) RETURN c {.seq, .turn} AS c")[0]["c"]
    result = queue.lease("w1", batches=5)
    assert (result.leases, result.reason) == ((), "nothing due")
    assert jobs_db.read("MATCH (c:QueueControl) RETURN c {.seq, .turn} AS c")[0]["c"] == before
    assert jobs_db.read("MATCH (l:EmbedLease) RETURN count(l) AS n")[0]["n"] == 0


# -- halt and pause ----------------------------------------------------------------------------------------


def test_a_halted_queue_leases_and_starts_nothing_until_it_is_resumed(
    queue: EmbedQueue, jobs_db: Database
) -> None:
    queue.enqueue(requests(20))
    (waiting,) = leased(queue).leases
    assert queue.halt("bad key") is True
    assert queue.halt("another reason") is False
    assert queue.lease("w1", batches=1).reason == "halted"
    assert queue.start(waiting.token, waiting.job_ids).refused == "halted"
    status = queue.status()
    assert (status.halted, status.halted_reason) == (True, "bad key")
    assert queue.release(waiting.token, waiting.job_ids) == len(waiting.job_ids)
    assert queue.resume() == (True, False, False)
    assert queue.resume() == (False, False, False)
    assert queue.status().halted_reason is None
    assert running(queue).jobs
    assert {job["attempts"] for job in all_jobs(jobs_db).values()} == {0}


def test_a_pause_ends_by_itself_and_is_only_made_longer(queue: EmbedQueue, clock: Clock) -> None:
    queue.enqueue(requests(20))
    (waiting,) = leased(queue).leases
    end = clock.now + 10_000
    assert queue.pause(10, "429") == end
    assert queue.pause(2, "shorter") == end
    assert (queue.status().paused_until, queue.status().pause_reason) == (end, "429")
    clock.advance(9_999)
    assert queue.lease("w1", batches=1).reason == "paused"
    assert queue.start(waiting.token, waiting.job_ids).refused == "paused"
    clock.advance(1)
    assert queue.status().paused_until is None
    assert queue.start(waiting.token, waiting.job_ids).jobs
    assert leased(queue).leases


@pytest.mark.parametrize("seconds", [-1, 1e12, math.inf, math.nan])
def test_a_pause_is_a_time_of_at_most_a_year(queue: EmbedQueue, seconds: float) -> None:
    """Whoever asks for it. Guard: `pauses.allowed`; with 1e12 s there is no such date, and `status` of the command line
    fails until somebody resumes."""
    with pytest.raises(ValueError, match="year"):
        queue.pause(seconds, "for good")
    assert queue.status().paused_until is None
    assert queue.pause(LONGEST_S, "a year") > 0


def test_resume_ends_a_pause_at_once(queue: EmbedQueue) -> None:
    queue.enqueue(requests(1))
    queue.pause(3_600, "quota")
    assert queue.resume() == (False, True, False)
    assert leased(queue).leases


@pytest.mark.parametrize("ended", ["halt", "pause"])
def test_a_halt_or_a_pause_may_be_ended_alone(queue: EmbedQueue, ended: str) -> None:
    """Fails without the conditions in `control/resume`: both end."""
    queue.enqueue(requests(1))
    queue.halt("bad key")
    queue.pause(3_600, "maintenance")
    done = queue.resume(halt=ended == "halt", pause=ended == "pause")
    assert done == (ended == "halt", ended == "pause", False)
    status = queue.status()
    assert status.halted is (ended == "pause")
    assert status.halted_reason == ("bad key" if ended == "pause" else None)
    assert (status.pause_reason == "maintenance") is (ended == "halt")
    assert queue.lease("w1", batches=1).reason == ("halted" if ended == "pause" else "paused")


@pytest.mark.parametrize("alone", [True, False])
def test_trouble_without_a_pause_in_force_is_ended_and_told(
    queue: EmbedQueue, clock: Clock, alone: bool
) -> None:
    """Its rest is over, and one probe at a time goes out. Fails without `troubled`: "nothing to do", though all workers
    may go on. A neighbour: ending a pause alone keeps the trouble, so that a probe goes first."""
    queue.enqueue(requests(9))
    work = running(queue)
    queue.control.provider_failed(work.token, work.ids, fault(kind=FaultKind.OUTAGE), to_open=1)
    queue.release(work.token, work.ids)
    clock.advance(60_000)
    assert queue.resume(halt=not alone) == (False, False, not alone)
    (lease,) = leased(queue).leases
    assert len(lease.job_ids) == (1 if alone else 9)


def test_what_runs_may_end_while_the_queue_is_halted(queue: EmbedQueue) -> None:
    queue.enqueue(requests(2))
    work = running(queue)
    queue.halt("bad key")
    assert queue.heartbeat({work.token: work.ids}) == {work.token: 2}
    assert queue.complete(work.token, work.ids).completed == set(work.ids)


# -- the census --------------------------------------------------------------------------------------------


def test_without_workers_nothing_is_leased(queue: EmbedQueue) -> None:
    queue.enqueue(requests(1))
    assert queue.lease("beat").reason == "no workers"


def test_the_free_slots_of_the_census_bound_the_leases(make_queue: MakeQueue) -> None:
    queue = make_queue(embed_batch_size=1)
    queue.enqueue(requests(20))
    queue.census.record([Worker("w1", 2), Worker("w2", 1)])
    first = queue.lease("beat")
    assert len(first.leases) == 3 * OPEN_PER_SLOT
    assert queue.lease("beat").reason == "no free slots"
    done = first.leases[0]
    queue.start(done.token, done.job_ids)
    assert queue.lease("beat").reason == "no free slots"
    queue.complete(done.token, done.job_ids)
    assert len(queue.lease("beat").leases) == 1


def test_one_transaction_leases_no_more_than_it_is_asked_for_and_says_that_there_is_more(
    make_queue: MakeQueue,
) -> None:
    """So that the first worker need not wait for the leases of all others."""
    queue = make_queue(embed_batch_size=4)
    queue.enqueue(requests(17))
    queue.census.record([Worker("w1", 4)])
    results = [queue.lease("beat", most_jobs=8) for _ in range(3)]
    assert [[len(lease.job_ids) for lease in result.leases] for result in results] == [[4, 4], [4, 4], [1]]
    assert [result.more for result in results] == [True, True, False]
    assert queue.lease("beat", most_jobs=8).more is False


def test_a_batch_that_is_larger_than_asked_for_is_leased_whole(make_queue: MakeQueue) -> None:
    queue = make_queue(embed_batch_size=4)
    queue.enqueue(requests(8))
    queue.census.record([Worker("w1", 1)])
    results = [queue.lease("beat", most_jobs=3) for _ in range(3)]
    assert [len(result.leases) for result in results] == [1, 1, 0]
    assert [result.more for result in results] == [True, False, False]


def test_a_silent_worker_offers_no_slots_and_is_reported_then_forgotten(
    queue: EmbedQueue, clock: Clock
) -> None:
    """The heartbeat of these tests is 30 s: silence counts from 75 s on, and a name is forgotten after 900 s."""
    queue.enqueue(requests(1))
    assert queue.census.record([Worker("w1", 1), Worker("w2", 3, leases=2)]) == {}
    clock.advance(74_999)
    assert queue.census.record([Worker("w1", 1)]) == {"w2": 74_999}
    assert [(w.name, w.slots, w.seen_ms_ago) for w in queue.census.workers()] == [
        ("w1", 1, 0),
        ("w2", 3, 74_999),
    ]
    clock.advance(1)
    assert [worker.name for worker in queue.census.workers()] == ["w1"]
    clock.advance(75_000)
    assert queue.lease("beat").reason == "no workers"
    clock.advance(750_002)
    assert queue.census.record([Worker("w1", 1)]) == {}


def test_a_worker_that_says_good_bye_offers_no_slots(queue: EmbedQueue) -> None:
    queue.enqueue(requests(1))
    queue.census.record([Worker("w1", 1)])
    queue.census.forget("w1")
    queue.census.forget("never seen")
    assert queue.lease("beat").reason == "no workers"


def test_all_workers_are_asked_once_a_minute_whichever_process_asks(
    make_queue: MakeQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others only ask those that are known, and so never one whose hello was lost.

    Guard: `may_ask_all`, which keeps the time in the jobs database; counted by each process for itself, it was every
    fifth heartbeat of each."""
    asked: list[list[str] | None] = []

    def broadcast(_command: str, *, destination: list[str] | None, **_: object) -> None:
        asked.append(destination)

    monkeypatch.setattr(census.app.control, "broadcast", broadcast)
    processes = [make_queue(), make_queue()]
    for n in range(6):
        processes[0].census.record([Worker("w1", 1)])
        monkeypatch.setattr(resources, "queue", lambda n=n: processes[n % 2])
        census.take()
        clock.advance(20_000)
    assert asked == [None, ["w1"], ["w1"], None, ["w1"], ["w1"]]


def test_a_census_that_the_broker_cut_short_says_nothing_of_the_workers(
    queue: EmbedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: `BROKER_ERRORS` in `census.take`. Without it the heartbeat ends with an error of Redis and its stack."""

    def broadcast(*_: object, **__: object) -> None:
        raise redis.ConnectionError("Connection closed by server.")

    monkeypatch.setattr(census.app.control, "broadcast", broadcast)
    monkeypatch.setattr(resources, "queue", lambda: queue)
    monkeypatch.setattr(census, "_refreshed_at", float("-inf"))
    queue.census.record([Worker("w1", 1)])
    with capture_logs() as lines:
        assert upkeep.heartbeat() == {"skipped": "the broker is away"}
        assert census.refresh() is False
    assert [line["event"] for line in lines] == ["census_not_taken"] * 2
    assert [worker.name for worker in queue.census.workers()] == ["w1"]


def test_only_who_missed_a_heartbeat_is_called_silent(
    queue: EmbedQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker says hello before it can hear the question. Guard: the pace in `heartbeat`; without it each start of a
    worker may be told as an absence."""
    monkeypatch.setattr(census.app.control, "broadcast", lambda *_, **__: [])
    monkeypatch.setattr(resources, "queue", lambda: queue)
    queue.census.record([Worker("w1", 1)])

    def told(after_ms: int) -> list[int]:
        clock.advance(after_ms)
        with capture_logs() as lines:
            upkeep.heartbeat()
        return [line["silent_ms"] for line in lines if line["event"] == "worker_silent"]

    assert told(331) == []
    assert told(queue.census.heartbeat_ms) == [queue.census.heartbeat_ms + 331]


def test_workers_with_different_settings_are_told_at_once_and_then_seldom(
    make_queue: MakeQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: `may_tell_disagreement`, which keeps the time in the jobs database; without it there is a line with each
    heartbeat. One that misses a heartbeat is no new beginning, another difference is."""
    marks = {"a@host": "label:1 model:1", "b@host": "label:1 model:1"}

    def broadcast(*_: object, **__: object) -> list[dict[str, object]]:
        return [{name: {"slots": 1, "leases": {}, "fingerprint": mark}} for name, mark in marks.items()]

    monkeypatch.setattr(census.app.control, "broadcast", broadcast)
    processes = [make_queue(), make_queue()]

    def told(heartbeats: int) -> list[list[str]]:
        with capture_logs() as lines:
            for n in range(heartbeats):
                monkeypatch.setattr(resources, "queue", lambda n=n: processes[n % 2])
                upkeep.heartbeat()
                clock.advance(20_000)
        found = [line for line in lines if line["event"] == "workers_disagree"]
        assert {line["log_level"] for line in found} <= {"warning"}
        assert all(line["workers"] == (("a@host",), ("b@host",)) for line in found)
        return [line["differ"] for line in found]

    assert told(3) == []
    marks["b@host"] = "label:1 model:2"
    assert told(3) == [["model"]]
    del marks["b@host"]
    assert told(1) == []
    marks["b@host"] = "label:1 model:2"
    assert told(12) == [["model"]]
    marks["b@host"] = "label:2 model:2"
    assert told(2) == [["label", "model"]]


@pytest.mark.parametrize("slots", [0, 1])
def test_a_caller_that_vouches_for_slots_needs_no_census(queue: EmbedQueue, slots: int) -> None:
    queue.enqueue(requests(1))
    queue.census.record([Worker("w1", slots)])
    assert len(leased(queue, batches=1).leases) == 1


def test_workers_of_another_deployment_are_left_out_and_named(
    queue: EmbedQueue, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Two deployments on one Redis database. Failed before: their slots counted as ours.

    Once at first, then each five minutes.
    """
    answers = [
        {"ours@h": {"slots": 2, "leases": {}, "deployment": "aaaa"}},
        {"theirs@h": {"slots": 8, "leases": {"9-x": ["j"]}, "deployment": "bbbb"}},
        {"old@h": {"slots": 1, "leases": {}}},
    ]
    monkeypatch.setattr(census.app.control, "broadcast", lambda *_, **__: answers)
    monkeypatch.setattr(resources, "queue", lambda: queue)
    monkeypatch.setattr(deployment, "_mark", "aaaa")
    with capture_logs() as lines:
        for _ in range(3):
            taken = census.take()
            assert taken is not None
            assert [worker.name for worker in taken[0]] == ["ours@h", "old@h"]
            assert taken[1] == {}
            clock.advance(200_000)
    told = [line for line in lines if line["event"] == "foreign_workers"]
    assert [line["workers"] for line in told] == [["theirs@h"]] * 2
    assert "CELERY_BROKER_URL" in told[0]["advice"]


@pytest.mark.parametrize(
    ("headers", "passed", "sent"),
    [
        (None, False, 0),
        ({"deployment": "aaaa"}, False, 0),
        ({"deployment": "bbbb"}, True, 1),
        ({"deployment": "bbbb", "hops": deployment.MOST_HOPS}, True, 0),
    ],
)
def test_a_batch_of_another_deployment_is_passed_on_a_bounded_number_of_times(
    headers: dict[str, object] | None, passed: bool, sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failed before: it was dropped as stale, and its jobs waited for the start deadline."""
    messages = []
    monkeypatch.setattr(deployment.app, "send_task", lambda _name, **more: messages.append(more["headers"]))
    monkeypatch.setattr(deployment, "_mark", "aaaa")
    monkeypatch.setattr(deployment, "REST_S", 0.0)
    with capture_logs() as lines:
        assert deployment.pass_on(headers, "9-x", ["j"]) is passed
    assert messages == [{"deployment": "bbbb", "hops": 1}] * sent
    assert len(lines) == sent
