"""Sweeps in turns: nothing is left out, there is one of each scope at a time, and none is lost for good."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from neo4j.exceptions import DatabaseError
from structlog.testing import capture_logs

from neo4j_queue import jobs
from neo4j_queue.graph import EntityGraph
from neo4j_queue.jobs import JobRequest
from neo4j_queue.mock_provider import error
from neo4j_queue.queue import ticks
from neo4j_queue.reconcile import sweep, turns
from neo4j_queue.reconcile.apart import enqueue_apart
from neo4j_queue.reconcile.repair import force_generate_embedding
from neo4j_queue.reconcile.sweep import Scope, Sweep
from neo4j_queue.reconcile.turns import SILENT_MS, Sweeps, Turn
from neo4j_queue.reconcile.watermark import Changed
from neo4j_queue.schema import triggers
from tests.pipeline.conftest import Bench, MakeBench
from tests.queue.scenery import CountingDatabase, all_jobs
from tests.waiting import wait_until

PAGE = 10
COUNT = 35


@pytest.fixture
def sweeping(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    """Over entities that another program wrote. A page takes as long as a turn."""
    monkeypatch.setattr(sweep, "PAGE", PAGE)
    monkeypatch.setattr(sweep, "STEPS", PAGE)
    bench.graph.database.write("UNWIND range(1, $count) AS n CREATE (:Entity {name: 'e' + n})", count=COUNT)
    seconds = itertools.count(step=turns.TURN_S)
    return Sweeps(bench.graph, bench.queue, clock=lambda: next(seconds), now=lambda: bench.clock.now)


def stored(bench: Bench) -> dict[str, dict[str, Any]]:
    """All jobs of the bench."""
    return all_jobs(bench.queue.database)


def turn(found: Turn | None) -> Turn:
    assert found is not None
    return found


def test_a_sweep_goes_on_where_its_last_turn_ended(sweeping: Sweeps, bench: Bench) -> None:
    turns = [turn(sweeping.take_turn(Scope.MISSING))]
    while turns[-1].token is not None:
        turns.append(turn(sweeping.take_turn(Scope.MISSING, turns[-1].token)))
    assert [each.done.seen for each in turns] == [10, 20, 30, 35]
    assert turns[-1] == Turn(Sweep(seen=35, queued=35, missing=35), None)
    assert bench.queue.status().pending == COUNT
    again = turn(sweeping.take_turn(Scope.MISSING))
    assert again.done == Sweep(seen=10, standing=10, missing=10), "the next one begins anew"


def test_a_turn_ends_at_its_time_and_not_before(sweeping: Sweeps) -> None:
    """Guard: `until`. Without it the first turn sees everything."""
    seconds = itertools.count(step=0.4 * turns.TURN_S)
    sweeping.clock = lambda: next(seconds)
    assert turn(sweeping.take_turn(Scope.ALL)).done.seen == 30
    sweeping.clock = lambda: 0.0
    assert turn(sweeping.take_turn(Scope.MISSING)).token is None, "a short one takes one turn"


def test_there_is_one_sweep_of_a_scope_at_a_time(sweeping: Sweeps) -> None:
    """Guard: `moved_at` in sweeps/claim. Without it, calls that come faster than sweeps end fill the worker."""
    first = turn(sweeping.take_turn(Scope.ALL))
    assert sweeping.take_turn(Scope.ALL) is None
    assert sweeping.take_turn(Scope.MISSING) is not None, "another scope is another sweep"
    second = turn(sweeping.take_turn(Scope.ALL, first.token))
    assert second.done.seen == 20, "it was not disturbed"


def test_a_message_that_comes_twice_gets_one_turn(sweeping: Sweeps) -> None:
    """Guard: a new token with every turn. Without it one sweep becomes two, and these four."""
    first = turn(sweeping.take_turn(Scope.ALL))
    assert sweeping.take_turn(Scope.ALL, first.token) is not None
    assert sweeping.take_turn(Scope.ALL, first.token) is None
    assert sweeping.take_turn(Scope.ALL, "never-given") is None


def test_a_sweep_whose_next_turn_was_lost_is_found_and_goes_on(sweeping: Sweeps, bench: Bench) -> None:
    lost = turn(sweeping.take_turn(Scope.ALL))
    bench.skip(SILENT_MS / 1000)
    assert sweeping.stranded() == []
    bench.skip(0.001)
    assert sweeping.stranded() == [(Scope.ALL, lost.token)]
    assert turn(sweeping.take_turn(Scope.ALL, lost.token)).done.seen == 20
    assert sweeping.stranded() == []


@pytest.mark.parametrize("by_token", [True, False], ids=["its next turn", "a new sweep"])
def test_a_sweep_of_other_settings_under_way_begins_anew(
    sweeping: Sweeps, make_bench: MakeBench, by_token: bool
) -> None:
    """Its place is one among other entities, and its counts are of those. Seen failing without `foreign` in
    sweeps/claim: the turn goes on at the old place, and the new sweep waits for one that nobody goes on with."""
    old = turn(sweeping.take_turn(Scope.ALL))
    assert old.token is not None
    other = make_bench(openai_embedding_model="other-model")
    seconds = itertools.count(step=turns.TURN_S)
    now = Sweeps(other.graph, other.queue, clock=lambda: next(seconds), now=lambda: other.clock.now)
    found = [turn(now.take_turn(Scope.ALL, old.token if by_token else None))]
    assert found[0].done.seen == PAGE, "from the first entity on"
    assert now.take_turn(Scope.ALL) is None, "there is one under way"
    assert sweeping.take_turn(Scope.ALL, old.token) is None, "the old one is over"
    while found[-1].token is not None:
        found.append(turn(now.take_turn(Scope.ALL, found[-1].token)))
    assert found[-1].done.seen == COUNT


def test_a_sweep_that_was_taken_for_dead_stops_at_its_next_page(
    sweeping: Sweeps, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: the token in sweeps/move. Without it two sweeps write each other's place."""
    page: Callable[..., Sweep] = sweep.sweep_page
    newer: list[Turn] = []

    def slow(*args: object) -> Sweep:
        monkeypatch.setattr(turns, "sweep_page", page)
        bench.skip(SILENT_MS / 1000 + 1)
        newer.append(turn(sweeping.take_turn(Scope.ALL)))
        return page(*args)

    monkeypatch.setattr(turns, "sweep_page", slow)
    assert turn(sweeping.take_turn(Scope.ALL)).lost
    assert turn(sweeping.take_turn(Scope.ALL, newer[0].token)).done.seen == 20


def test_a_sweep_that_ended_is_neither_under_way_nor_stranded(sweeping: Sweeps, bench: Bench) -> None:
    sweeping.clock = lambda: 0.0
    assert turn(sweeping.take_turn(Scope.ALL)).token is None
    assert sweeping.take_turn(Scope.ALL) is not None
    bench.skip(10 * SILENT_MS / 1000)
    assert sweeping.stranded() == []


def test_a_key_that_is_too_long_is_left_out_and_named_and_the_others_go_on(bench: Bench) -> None:
    """It fits the graph's index and not the one of the jobs. Guard: `enqueue_apart`; without it no entity of its page
    gets a job, in this sweep and in all later ones."""
    names = ["a", "k" * 8_140, "z"]
    bench.graph.database.write("UNWIND $names AS name CREATE (:Entity {name: name})", names=names)
    with capture_logs() as logs:
        done = sweep.sweep(bench.graph, bench.queue, Scope.ALL)
    assert (done.seen, done.queued, done.refused, done.failed) == (3, 2, 1, 0)
    (line,) = [line for line in logs if line["event"] == "entity_refused"]
    assert line["entity_name"].startswith("'kkk")
    assert "8,140 bytes" in line["reason"]
    assert bench.queue.status().pending == 2


def test_what_the_database_refuses_against_all_foresight_is_found_by_halves(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server whose index takes less than ours. When it refuses everything, no entity is to blame."""
    monkeypatch.setattr(jobs, "KEY_BYTES_MAX", 100_000)
    requests = [JobRequest(name, "m", "v") for name in ("a", "b", "k" * 8_200, "c", "d")]
    results, refused = enqueue_apart(bench.queue, requests)
    assert [result.entity_uid for result in results] == ["a", "b", "c", "d"]
    assert list(refused) == ["k" * 8_200]
    with pytest.raises(DatabaseError):
        enqueue_apart(bench.queue, [JobRequest(letter * 8_200, "m", "v") for letter in "xyz"])


def test_soft_deleted_entities_leave_the_outbox(bench: Bench) -> None:
    """Guard: `deleted` in sweep_page. Without it each sweep reads them again."""
    bench.create("gone", "stays")
    bench.graph.database.write("MATCH (n:Entity {name: 'gone'}) SET n.validTo = 1")
    done = sweep.sweep(bench.graph, bench.queue, Scope.OUTBOX)
    assert (done.seen, done.standing, done.deleted, done.failed) == (2, 1, 1, 0)
    assert [text.uid for text in bench.graph.pending_page()] == ["stays"]


def test_a_sweep_that_finds_everything_queued_writes_nothing(bench: Bench) -> None:
    """A job that stands is looked up by the statement that would make it, and not locked. Guard: `_may_change`; without
    it each job is locked, which its `_lock` shows."""
    bench.create(*(f"e{n}" for n in range(30)))
    bench.queue.database.write("MATCH (j:EmbedJob) REMOVE j._lock")
    before = stored(bench)
    with CountingDatabase(bench.queue.database.address) as counting:
        bench.queue.database = counting
        done = sweep.sweep(bench.graph, bench.queue, Scope.ALL)
        # The page, and the figures of the sweep at its end.
        assert counting.calls == 2
    assert (done.seen, done.standing) == (30, 30)
    assert stored(bench) == before


def test_jobs_of_a_backfill_stand_behind_those_of_people(bench: Bench) -> None:
    """Guard: `Scope.priority`. With one priority for all an edit waits behind the whole backfill."""
    bench.graph.database.write("UNWIND range(1, 5) AS n CREATE (:Entity {name: 'old' + n})")
    sweep.sweep(bench.graph, bench.queue, Scope.ALL)
    bench.create("edited")
    assert [bench.job(name)["priority"] for name in ("old1", "edited")] == [0, 1]
    bench.graph.database.write(
        "MATCH (n:Entity {name: 'old3'}) SET n:EmbedPending, n.observations = ['edited by another program']"
    )
    sweep.sweep(bench.graph, bench.queue, Scope.OUTBOX)
    assert [bench.job(name)["priority"] for name in ("old2", "old3")] == [0, 1], "a new text is a new job"


def load(bench: Bench, *names: str) -> None:
    """Entities of a bulk load, queued."""
    bench.graph.load_entities({"name": name, "observations": ["loaded"]} for name in names)


def priorities(bench: Bench, *names: str) -> list[int]:
    """Of the newest job of each."""
    return [bench.job(name)["priority"] for name in names]


def test_jobs_of_a_load_stay_behind_those_of_people_whatever_sweeps_find_them(bench: Bench) -> None:
    """Their nodes are in the outbox until they are embedded. Seen to fail without `keep_priority` in `enqueue_stale`:
    the first sweep of the outbox raises every job of the load, and an edit waits behind all of it."""
    names = [f"e{n}" for n in range(30)]
    load(bench, *names)
    bench.queue.database.write("MATCH (j:EmbedJob) REMOVE j._lock")
    before = stored(bench)
    for scope in (Scope.OUTBOX, Scope.OUTBOX, Scope.MISSING, Scope.ALL):
        assert sweep.sweep(bench.graph, bench.queue, scope) == Sweep(seen=30, standing=30, missing=30)
    assert stored(bench) == before, "not even locked"
    bench.skip(1)
    bench.create("edited")
    bench.graph.update_entity("e7", {"observations": ["by a person"]})
    sweep.sweep(bench.graph, bench.queue, Scope.OUTBOX)
    assert priorities(bench, "edited", "e7", "e8") == [1, 1, 0]
    assert [job["priority"] for job in bench.queue.jobs(entity_uid="e7")] == [1, 0], (
        "the old text's is not raised"
    )


def test_a_person_who_asks_for_what_is_loaded_raises_its_job(bench: Bench) -> None:
    """The sweep that comes after leaves that as it is."""
    load(bench, "left", "touched", "repaired", "back", "created")
    bench.graph.touch(["touched"])
    force_generate_embedding(bench.graph, bench.queue, "repaired")
    bench.graph.update_entity("back", {"observations": ["other"]})
    bench.graph.update_entity("back", {"observations": ["loaded"]})
    bench.create("created", text="loaded")
    sweep.sweep(bench.graph, bench.queue, Scope.OUTBOX)
    assert priorities(bench, "left", "touched", "repaired", "created") == [0, 1, 9, 1]
    assert [job["priority"] for job in bench.queue.jobs(entity_uid="back")] == [1, 1]


def test_what_was_not_handed_over_gets_a_job_of_the_outbox(bench: Bench) -> None:
    """The queue did not hear of it, and it is not known whether a person waits for it."""
    load(bench, "queued", "lost")
    bench.queue.database.write("MATCH (j:EmbedJob {entity_uid: 'lost'}) DETACH DELETE j")
    done = sweep.sweep(bench.graph, bench.queue, Scope.OUTBOX)
    assert (done.queued, done.standing) == (1, 1)
    assert priorities(bench, "queued", "lost") == [0, 1]


def test_a_job_of_a_load_that_is_embedded_or_waits_for_another_try_keeps_its_priority(bench: Bench) -> None:
    """An edit that brings back a text that was embedded before has that of an edit."""
    load(bench, "waits")
    bench.provider.reply_always(error(500))
    bench.step()
    assert bench.job("waits")["attempts"] == 1
    sweep.sweep(bench.graph, bench.queue, Scope.OUTBOX)
    assert priorities(bench, "waits") == [0]
    (lease,) = bench.queue.lease("test", batches=1).leases
    sweep.sweep(bench.graph, bench.queue, Scope.OUTBOX)
    assert (bench.job("waits")["status"], priorities(bench, "waits")) == ("processing", [0])
    bench.provider.reply_always(None)
    bench.pipeline.run(lease.token, lease.job_ids)
    assert bench.job("waits")["status"] == "completed"
    bench.graph.database.write("MATCH (n:Entity {name: 'waits'}) SET n:EmbedPending REMOVE n.embedding")
    assert sweep.sweep(bench.graph, bench.queue, Scope.OUTBOX).queued == 1
    assert priorities(bench, "waits") == [1], "another program has asked for its vector"


@pytest.mark.parametrize("scope", [Scope.MISSING, Scope.ALL])
def test_a_step_passes_over_a_bounded_number_of_entities(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, scope: Scope
) -> None:
    """However few are wanted. Guard: `graph/key_after`; when only what is found is bounded, the first page reads
    every entity of the graph."""
    monkeypatch.setattr(sweep, "PAGE", PAGE)
    monkeypatch.setattr(sweep, "STEPS", PAGE)
    unwanted = "n.validTo = 1" if scope is Scope.ALL else "n.embedding = [1.0]"
    bench.graph.database.write(
        f"UNWIND range(10, 59) AS at CREATE (n:Entity {{name: 'e' + at}}) SET {unwanted} "
        "WITH count(*) AS _ CREATE (:Entity {name: 'last'})"
    )
    steps = list(sweep.walk(bench.graph, scope))
    assert [[text.uid for text in step.texts] for step in steps] == [[], [], [], [], [], ["last"]]
    assert [step.last for step in steps] == ["e19", "e29", "e39", "e49", "e59", None]


@pytest.mark.parametrize("scope", [Scope.MISSING, Scope.ALL])
def test_entities_that_share_a_key_are_found_in_one_step(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, scope: Scope
) -> None:
    """Versions of entities by `validTo`: none of the two current ones may fall between two steps.

    Guard: the second look goes up to the key, not to the number, at which the first one stopped.
    """
    monkeypatch.setattr(sweep, "PAGE", 2)
    monkeypatch.setattr(sweep, "STEPS", 2)
    database = bench.graph.database
    database.write("CREATE (:Versions {name: 'a'})")
    graph = EntityGraph(
        database, bench.graph.recipe, "m", dimensions=bench.graph.dimensions, label="Versions", key="name"
    )
    database.write("CREATE INDEX versions_name IF NOT EXISTS FOR (n:Versions) ON (n.name)")
    database.autocommit("CALL db.awaitIndexes(60)")
    database.write(
        "UNWIND range(1, 5) AS at CREATE (n:Versions {name: 'b'}) SET n.validTo = CASE WHEN at < 4 THEN at END"
    )
    try:
        assert [text.uid for step in sweep.walk(graph, scope) for text in step.texts] == ["a", "b", "b"]
    finally:
        database.write("DROP INDEX versions_name")


def test_a_page_is_read_while_the_last_one_is_worked_on() -> None:
    """And an error of the reader is raised where the page is wanted."""
    read: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(3):
            read.append(number)
            yield number
        raise RuntimeError("the end")

    ahead = sweep.read_ahead(numbers())
    assert next(ahead) == 0
    wait_until(lambda: read == [0, 1], within_s=5, what="the next page is read")
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(RuntimeError):
        next(ahead)


def test_no_sweep_begins_by_itself_while_the_queue_is_deep(
    sweeping: Sweeps, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But that of the outbox, which somebody waits for. Guard: `DEEP_JOBS`."""
    monkeypatch.setattr(turns, "DEEP_JOBS", 2)
    bench.create("a", "b")
    assert sweeping.not_now(Scope.MISSING) is None
    bench.create("c")
    assert sweeping.not_now(Scope.MISSING) == "3 jobs are in the queue already"
    assert sweeping.not_now(Scope.ALL) == "3 jobs are in the queue already"
    assert sweeping.not_now(Scope.OUTBOX) is None


def test_a_sweep_rests_as_long_as_it_worked(sweeping: Sweeps, bench: Bench) -> None:
    """Guard: sweeps/at_rest. Without it a slow sweep of a large graph follows upon itself for ever."""
    first = turn(sweeping.take_turn(Scope.ALL))
    bench.skip(20)
    sweeping.clock = lambda: 0.0
    assert turn(sweeping.take_turn(Scope.ALL, first.token)).token is None
    bench.skip(19)
    assert sweeping.not_now(Scope.ALL) == "at rest after the last sweep"
    assert sweeping.not_now(Scope.MISSING) is None
    bench.skip(1)
    assert sweeping.not_now(Scope.ALL) is None


def test_a_sweep_is_due_at_its_interval_and_the_outbox_more_often_while_a_trigger_fills_it(
    sweeping: Sweeps, bench: Bench
) -> None:
    """Guard: `every_ms` in sweeps/due. Without it what a trigger has marked is looked at every five minutes."""
    every = 300_000
    for scope in (Scope.OUTBOX, Changed("updatedAt")):
        assert sweeping.due(scope, every) == every, "never swept"
        assert bench.queue.ticks.take(ticks.SWEEPS.format(scope), every)
    bench.skip(299)
    assert [sweeping.due(scope, every) for scope in (Scope.OUTBOX, Changed("updatedAt"))] == [None, None]
    triggers.hasten(bench.queue.database, on=True)
    assert sweeping.due(Scope.OUTBOX, every) == triggers.OUTBOX_EVERY_MS
    assert sweeping.due(Scope.OUTBOX, 1_000) is not None, "the settings may ask for more"
    assert sweeping.due(Changed("updatedAt"), every) is None
    triggers.hasten(bench.queue.database, on=False)
    assert sweeping.due(Scope.OUTBOX, every) is None
    bench.skip(1)
    assert sweeping.due(Scope.OUTBOX, every) == every


def test_the_outbox_rests_four_times_as_long_as_it_worked(sweeping: Sweeps, bench: Bench) -> None:
    """It may be due every two seconds, and finds all again that waits. Guard: `OUTBOX_RESTS`; without a rest it takes
    all of the time while a large load waits for its vectors."""
    assert sweeping.not_now(Scope.OUTBOX) == "the outbox is empty"
    bench.create(*(f"ours{n}" for n in range(3 * PAGE)))
    assert sweeping.not_now(Scope.OUTBOX) is None
    first = turn(sweeping.take_turn(Scope.OUTBOX))
    bench.skip(10)
    sweeping.clock = lambda: 0.0
    assert turn(sweeping.take_turn(Scope.OUTBOX, first.token)).token is None
    bench.skip(39)
    assert sweeping.not_now(Scope.OUTBOX) == "at rest after the last sweep"
    bench.skip(1)
    assert sweeping.not_now(Scope.OUTBOX) is None
