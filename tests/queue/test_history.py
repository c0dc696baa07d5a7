"""The depth of the queue, written down once a minute for a day."""

from neo4j_queue.jobs import Outcome
from neo4j_queue.queue import EmbedQueue, history
from neo4j_queue.queue.history import DAY_MS, EVERY_MS
from neo4j_queue.queue.leases import Completion
from tests.queue.interleaving import Race
from tests.queue.scenery import Clock, requests, running


def test_a_sample_is_due_once_a_minute_and_a_lease_task_learns_it(queue: EmbedQueue, clock: Clock) -> None:
    assert queue.ticks.note(beat=True)
    assert history.keep(queue)
    assert not history.keep(queue)
    clock.advance(EVERY_MS - 1)
    assert not queue.ticks.note(beat=True)
    clock.advance(1)
    assert not queue.ticks.note(beat=True), "the note itself is not renewed yet"
    clock.advance(1_000)
    assert queue.ticks.note(beat=True)


def test_it_tells_what_was_there(queue: EmbedQueue, clock: Clock) -> None:
    queue.enqueue(requests(30))
    work = running(queue)
    queue.complete(work.token, [Completion(work.ids[0], Outcome.EMBEDDED)])
    history.keep(queue)
    (sample,) = history.read(queue.database, clock.now)
    assert (sample.at, sample.waiting, sample.completed) == (clock.now, 29, 1)
    assert sample.processing == len(work.ids) - 1


def test_a_day_is_kept_and_no_more(queue: EmbedQueue, clock: Clock) -> None:
    """The minute of the day is the name of the node. Fails where each sample is a node of its own."""
    for _ in range(3):
        history.keep(queue)
        clock.advance(DAY_MS)
    history.keep(queue)
    clock.advance(EVERY_MS)
    history.keep(queue)
    nodes = queue.database.read("CYPHER 5 MATCH (s:EmbedSample) RETURN count(s) AS n")
    assert nodes[0]["n"] == 2
    assert [each.at for each in history.read(queue.database, clock.now)] == [clock.now - EVERY_MS, clock.now]
    assert history.read(queue.database, clock.now - 2 * DAY_MS) == [], "what lies ahead is not shown"


def test_two_lease_tasks_at_once_write_one(race: Race) -> None:
    """Fails without `ticks.take`: both write."""
    kept: list[bool] = []
    race(lambda queue: kept.append(history.keep(queue)), lambda queue: kept.append(history.keep(queue)))
    assert sorted(kept) == [False, True]
