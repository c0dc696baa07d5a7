"""Recurring acts by the database's clock, and the moment at which leasing may go on by itself."""

from collections.abc import Callable

import pytest

from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import Spent, Verdicts, Worker
from neo4j_queue.queue.ticks import CLEANUP, HEARTBEAT, MISSING_MS
from tasks import census, resources, upkeep
from tests.queue.interleaving import Race
from tests.queue.scenery import Clock, failures, requests, running

MakeQueue = Callable[..., EmbedQueue]


def test_an_act_is_taken_once_in_its_interval(queue: EmbedQueue, clock: Clock) -> None:
    ticks = queue.ticks
    assert ticks.take(CLEANUP, 1_000)
    clock.advance(999)
    assert not ticks.take(CLEANUP, 1_000)
    assert ticks.take(HEARTBEAT, 1_000), "each act has its own time"
    clock.advance(1)
    assert ticks.take(CLEANUP, 1_000)


def test_a_clock_that_is_set_back_holds_no_act_up(queue: EmbedQueue, clock: Clock) -> None:
    """Guard: `abs` in ticks/take and ticks/note. Without it nothing is taken until the old time has come again."""
    assert queue.ticks.take(CLEANUP, 1_000)
    queue.ticks.note(beat=True)
    clock.advance(-86_400_000)
    assert queue.ticks.take(CLEANUP, 1_000)
    assert not queue.ticks.take(CLEANUP, 1_000)
    queue.ticks.note(beat=True)
    assert queue.ticks.ages().beat_ms == 0


def test_two_ticks_at_once_take_an_act_once(race: Race) -> None:
    """Guard: the second WHERE of ticks/take, under the lock. Without it both take it."""
    taken: list[bool] = []

    def take(queue: EmbedQueue) -> bool:
        taken.append(queue.ticks.take(CLEANUP, 60_000))
        return taken[-1]

    race(take, take)
    assert sorted(taken) == [False, True]


def test_beat_is_missing_after_three_ticks(queue: EmbedQueue, clock: Clock) -> None:
    assert queue.ticks.ages().beat_is_missing, "it never ticked"
    queue.ticks.note(beat=True)
    clock.advance(MISSING_MS)
    queue.ticks.note(beat=False)
    ages = queue.ticks.ages()
    assert (ages.beat_ms, ages.lease_ms, ages.beat_is_missing) == (MISSING_MS, 0, False)
    clock.advance(1)
    assert queue.ticks.ages().beat_is_missing


def test_the_next_moment_is_the_nearest_end_of_a_pause_a_back_off_or_a_window(
    make_queue: MakeQueue, clock: Clock
) -> None:
    queue = make_queue(embed_batch_size=1, embedding_rate_limit_tokens=9, embed_job_retry_base_delay_ms=4_000)
    ticks = queue.ticks
    assert ticks.next_moment_ms() is None
    queue.enqueue(requests(2))
    assert ticks.next_moment_ms() is None, "it is due now"
    run = running(queue)
    queue.settle(run.token, Verdicts(failed=failures(run.jobs)), spent=Spent(requests=1, sent_ms_ago=0))
    assert ticks.next_moment_ms() == 4_000, "the back-off"
    clock.advance(4_000)
    assert ticks.next_moment_ms() == queue.limits.window_ms - 4_000, "the window"
    queue.pause(2.5, "test")
    assert ticks.next_moment_ms() == 2_500
    queue.control.halt("test")
    assert ticks.next_moment_ms() is None, "a person resumes it"
    queue.resume()
    ticks.note(beat=True)
    assert ticks.next_moment_ms() is None, "beat asks every second"
    clock.advance(MISSING_MS + 1)
    assert ticks.next_moment_ms() == queue.limits.window_ms - 4_000 - MISSING_MS - 1


def test_a_recovery_waits_for_the_heartbeat_that_was_missed(
    queue: EmbedQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No control worker for longer than a lock, while a batch runs; then a recovery is the first thing that one finds.

    Guard: the heartbeat in `recover_stale`. Without it the batch is taken from its worker, and a crash is charged.
    """
    monkeypatch.setattr(resources, "queue", lambda: queue)
    monkeypatch.setattr(resources, "nudge", lambda: lambda: None)
    queue.enqueue(requests(2))
    run = running(queue, "w1")
    answer = {"w1": {"slots": 1, "leases": {run.token: list(run.ids)}, "up_ms": 1_000_000}}
    monkeypatch.setattr(census.app.control, "broadcast", lambda *_, **__: [answer])
    clock.advance(100_001)
    assert upkeep.recover_stale() == {"recovered": 0, "failed": 0}
    assert queue.status().started == 2
    answer["w1"]["leases"] = {}
    clock.advance(100_001)
    assert upkeep.recover_stale()["recovered"] + queue.status().pending >= 2, (
        "its worker does not run it any more"
    )


def test_a_silence_is_told_when_it_begins_and_when_it_has_doubled(queue: EmbedQueue, clock: Clock) -> None:
    """Also the next silence of the same worker. Guard: jobs/tell_silence; a line per heartbeat before."""
    told = []
    for _ in range(2):
        queue.census.record([Worker("w1", 1)])
        for _ in range(20):
            clock.advance(queue.census.heartbeat_ms)
            silent = queue.census.record([])
            told.append(len(queue.census.may_tell_silence(silent)))
    assert [n for n, count in enumerate(told, 1) if count] == [1, 2, 4, 8, 16, 21, 22, 24, 28, 36]
