"""A job whose text is no longer the entity's ends, and a job for the current text stands, whatever happens in between.

The entities are those of other programs: they are in no outbox, so that no sweep of it repairs what is lost here.
"""

from collections.abc import Callable
from typing import Any

import pytest

from neo4j_queue.database import Address, Database
from neo4j_queue.graph.vectors import EntityVectors
from neo4j_queue.jobs import Enqueued
from neo4j_queue.local_services import free_ports
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.settle import SettleTransaction
from tests.pipeline.conftest import Bench


def write(bench: Bench, name: str, text: str) -> None:
    """Another program writes an entity."""
    bench.graph.database.write(
        "MERGE (n:Entity {name: $name}) SET n.observations = [$text]", name=name, text=text
    )


def enqueue(bench: Bench, name: str) -> Enqueued:
    """A sweep or a person queues the entity's text as it is now."""
    (result,) = bench.queue.enqueue([bench.text(name).request(bench.embedder.model)])
    return result.outcome


@pytest.fixture
def edited(bench: Bench) -> Bench:
    """ "a" was queued with the text A, and has the text B now."""
    write(bench, "a", "A")
    enqueue(bench, "a")
    write(bench, "a", "B")
    return bench


def stands_for_the_text(bench: Bench, name: str = "a") -> bool:
    """Is there a job to do for the current text?"""
    version = bench.text(name).version
    jobs = [job for job in bench.queue.jobs(entity_uid=name) if job["version"] == version]
    return [job["status"] for job in jobs] == ["pending"]


def around(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str, before: Callable[[], None] = lambda: None
) -> None:
    """Something happens just before the method does its work."""
    real = getattr(owner, method)

    def act(*args: Any, **more: Any) -> Any:
        before()
        return real(*args, **more)

    monkeypatch.setattr(owner, method, act)


def test_its_successor_stands_before_it_ends(edited: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a process that is killed between the two loses nothing.

    Guard: `_enqueue_current` comes before the settlement. After it, the successor is not there yet.
    """
    seen: list[bool] = []
    around(monkeypatch, SettleTransaction, "store", lambda: seen.append(stands_for_the_text(edited)))
    (summary,) = edited.step()
    assert (summary.superseded, seen) == (1, [True])
    edited.step()
    assert edited.text("a").fresh


def test_an_interruption_leaves_it_a_successor(edited: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: `_enqueue_current` is a part of every settlement. Only on the normal way, "a" never gets its vector."""
    write(edited, "other", "text")
    enqueue(edited, "other")

    def stop() -> None:
        raise SystemExit(0)

    around(monkeypatch, type(edited.embedder), "embed", stop)
    with pytest.raises(SystemExit):
        edited.step()
    outcomes = {job["version"]: job.get("outcome") for job in edited.queue.jobs(entity_uid="a")}
    assert "superseded" in outcomes.values()
    assert stands_for_the_text(edited)
    assert stands_for_the_text(edited, "other")


def test_a_graph_that_goes_away_after_the_settlement_is_no_error(
    edited: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guard: the `except` of `look_again`. Without it the task ends with the driver's error."""
    real = edited.graph.database
    nobody = Address(f"bolt://127.0.0.1:{free_ports(1)[0]}", "neo4j")
    with Database(nobody, retry_time_s=0) as away:
        around(monkeypatch, SettleTransaction, "store", lambda: setattr(edited.graph, "database", away))
        (summary,) = edited.step()
    edited.graph.database = real
    assert summary.superseded == 1
    assert stands_for_the_text(edited)
    assert "left_to_sweep" in capsys.readouterr().out


def test_a_text_that_is_put_back_before_its_job_has_ended_is_queued_again(
    edited: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A -> B -> A: whoever puts A back is told that a job for A stands, and that one is about to end.

    Guard: the look after the settlement. Without it the entity has no job and no vector of A.
    """
    told: list[Enqueued] = []

    def put_back() -> None:
        monkeypatch.undo()
        # B is embedded meanwhile by another worker, so that its job is no successor any more.
        (lease,) = edited.queue.lease("another", batches=1).leases
        edited.pipeline.run(lease.token, lease.job_ids)
        write(edited, "a", "A")
        told.append(enqueue(edited, "a"))

    around(monkeypatch, SettleTransaction, "store", put_back)
    (summary,) = edited.step()
    assert (summary.superseded, told) == (1, [Enqueued.DUPLICATE])
    assert stands_for_the_text(edited)


def test_a_job_whose_text_is_back_when_it_is_looked_at_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another text while the vector is written, the old one a moment later: the job is for the current text.

    Guard: the versions in `_end_late`. Without them it ends superseded by itself.
    """
    write(bench, "a", "A")
    enqueue(bench, "a")

    def another() -> None:
        write(bench, "a", "B")
        around(monkeypatch, EntityVectors, "read_wanted", lambda: write(bench, "a", "A"))

    around(monkeypatch, EntityVectors, "write_vectors", another)
    (summary,) = bench.step()
    assert (summary.superseded, summary.released) == (0, 1)
    monkeypatch.undo()
    bench.step()
    assert bench.text("a").fresh


def test_texts_of_the_same_batch_are_not_queued_a_second_time(
    edited: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The successor is at work beside it."""
    enqueue(edited, "a")
    enqueued: list[int] = []
    around(monkeypatch, EmbedQueue, "enqueue", lambda: enqueued.append(1))
    (summary,) = edited.step()
    assert (summary.superseded, summary.embedded, enqueued) == (1, 1, [])


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("text", ["A", "B"])
def test_an_entity_that_is_created_again_before_its_job_has_ended_is_queued_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, soft: bool, text: str
) -> None:
    """Deleted (or soft-deleted and revived), read as gone, and there again: its writer was told that a job stands.

    Guard: `Ledger.gone` keeps the key for the look after the settlement. Seen failing without it: no job to do.
    """
    write(bench, "a", "A")
    enqueue(bench, "a")
    gone = "SET n.validTo = 1" if soft else "DETACH DELETE n"
    bench.graph.database.write(f"MATCH (n:Entity {{name: 'a'}}) {gone}")
    told: list[Enqueued] = []

    def back() -> None:
        monkeypatch.undo()
        write(bench, "a", text)
        bench.graph.database.write("MATCH (n:Entity {name: 'a'}) REMOVE n.validTo")
        if text == "A":
            told.append(enqueue(bench, "a"))

    around(monkeypatch, SettleTransaction, "store", back)
    (summary,) = bench.step()
    assert (summary.entity_deleted, told) == (1, [Enqueued.DUPLICATE] if text == "A" else [])
    assert stands_for_the_text(bench)
    bench.step()
    assert bench.text("a").fresh


def test_an_entity_that_stays_deleted_gets_no_job(bench: Bench) -> None:
    """Not even when it was the soft kind: its text is read again and left alone."""
    write(bench, "a", "A")
    enqueue(bench, "a")
    bench.graph.database.write("MATCH (n:Entity {name: 'a'}) SET n.validTo = 1")
    (summary,) = bench.step()
    assert summary.entity_deleted == 1
    assert bench.queue.status().unfinished == 0
