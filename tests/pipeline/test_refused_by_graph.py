"""A statement on the graph that fails for one entity, or for all: neither is a fault of the store being away."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from neo4j.exceptions import ServiceUnavailable

from neo4j_queue.database import Database
from neo4j_queue.graph.vectors import EntityVectors
from neo4j_queue.pipeline.vector_sources import VectorSources
from tests.pipeline.conftest import Bench

Unique = Callable[[str], None]


@pytest.fixture
def unique(graph_db: Database) -> Iterator[Unique]:
    """Makes a property unique among the documents of the user: `unique("embedding_hash")`."""

    def make(name: str) -> None:
        graph_db.autocommit(f"CREATE CONSTRAINT of_the_user FOR (n:Document) REQUIRE n.{name} IS UNIQUE")

    yield make
    graph_db.autocommit("DROP CONSTRAINT of_the_user IF EXISTS")


def names(count: int) -> list[str]:
    return [f"e{n:03}" for n in range(count)]


def documents(bench: Bench, count: int, *taken: str, **values: str) -> None:
    """Entities that are documents. Others have the hashes of those that are named as `taken`, and these values."""
    bench.create(*names(count))
    bench.graph.database.write("MATCH (n:Entity) SET n:Document")
    others = [{"embedding_hash": bench.text(name).content_hash} for name in taken]
    bench.graph.database.write(
        "UNWIND $others AS other CREATE (n:Document) SET n = other",
        others=others + ([values] if values else []),
    )


def counted(monkeypatch: pytest.MonkeyPatch, method: str) -> list[int]:
    """The sizes of the statements that are run from now on."""
    sizes: list[int] = []
    real = getattr(EntityVectors, method)

    def count(graph: EntityVectors, items: Any) -> Any:
        sizes.append(len(items))
        return real(graph, items)

    monkeypatch.setattr(EntityVectors, method, count)
    return sizes


def refuse(
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    when: Callable[[Any], bool],
    error: type[Exception] = RuntimeError,
) -> None:
    """Statements of this kind fail for such items, in a way that nobody foresaw."""
    real = getattr(EntityVectors, method)

    def act(graph: EntityVectors, items: Any) -> Any:
        if when(items):
            raise error("not this one")
        return real(graph, items)

    monkeypatch.setattr(EntityVectors, method, act)


def failed(bench: Bench) -> dict[str, str]:
    return {job["entity_uid"]: job["error_type"] for job in bench.queue.jobs(status="failed", limit=1_000)}


def test_an_entity_that_cannot_be_written_hurts_no_other(
    bench: Bench, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request, 99 vectors, one verdict.

    Guard: `isolate` in `GraphCalls.write`. Without it all are released, due at once, and paid for again without an end.
    """
    unique("embedding_hash")
    documents(bench, 100, "e042")
    sizes = counted(monkeypatch, "write_vectors")
    (summary,) = bench.step()
    assert (summary.embedded, summary.failed, summary.released, summary.requests) == (99, 1, 0, 1)
    assert failed(bench) == {"e042": "ConstraintError"}
    job = bench.job("e042")
    assert (job["failure_reason"], job["error_category"], job["attempts"]) == (
        "permanent_error",
        "PERMANENT",
        1,
    )
    assert len(sizes) <= 1 + 2 * 7
    assert bench.queue.control.state().trouble is None


def test_several_that_stand_together_are_found(bench: Bench, unique: Unique) -> None:
    """Guard: the parts of `isolate` are every second one. Cut in the middle, a few are found and the rest waits."""
    unique("embedding_hash")
    documents(bench, 64, *names(6))
    (summary,) = bench.step()
    assert (summary.embedded, summary.failed, summary.released) == (58, 6, 0)
    assert set(failed(bench)) == set(names(6))


def test_more_to_blame_than_are_looked_for_at_once_are_found_by_and_by(
    make_bench: Callable[..., Bench], unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    unique("embedding_hash")
    bench = make_bench(embed_batch_size=256)
    documents(bench, 256, *names(100))
    sizes = counted(monkeypatch, "write_vectors")
    (summary,) = bench.step()
    assert len(sizes) <= 8 * 17
    assert summary.embedded > 0
    assert summary.released > 0
    while bench.queue.status().unfinished:
        bench.skip(10)
        bench.step()
    assert set(failed(bench)) == set(names(100))
    assert bench.queue.status().completed == 156


def test_when_none_can_be_written_it_is_the_graph_and_the_queue_rests(bench: Bench, unique: Unique) -> None:
    """Nobody is judged, the rests grow, and each of them costs one request of one text, until the graph takes vectors.

    Guard: `as_outage` in `isolate`. Without it the batch is leased again at once, without an end.
    """
    unique("embedding_model")
    documents(bench, 50, embedding_model=bench.embedder.model)
    (summary,) = bench.step()
    assert (summary.embedded, summary.failed, summary.released) == (0, 0, 50)
    state = bench.queue.control.state()
    assert (state.trouble, state.paused) == ("outage", True)
    assert "ConstraintError" in (state.pause_reason or "")
    assert bench.queue.lease("test", batches=1).reason == "paused"
    probed = []
    for _ in range(3):
        rest_s = ((state.paused_until or 0) - state.now) / 1000
        bench.skip(rest_s + 0.01)
        (summary,) = bench.step()
        assert (summary.jobs, summary.released) == (1, 1)
        probed.append(bench.provider.journal[-1].inputs)
        state = bench.queue.control.state()
        assert state.paused_until is not None
        assert (state.paused_until - state.now) / 1000 > rest_s
    assert len({*map(str, probed)}) == 3, "each probe is another entity"
    assert {job["attempts"] for job in bench.queue.jobs(limit=100)} == {0}
    bench.graph.database.autocommit("DROP CONSTRAINT of_the_user")
    bench.skip(10)
    bench.step()
    bench.step()
    assert bench.queue.status().completed == 50


def test_single_entities_that_cannot_be_written_are_verdicts_until_there_are_five_in_a_row(
    make_bench: Callable[..., Bench], unique: Unique
) -> None:
    """Batches of one: what nobody else passed may be the graph.

    Guard: `proven=` in `Pipeline._refuse`. Without it all twenty are dead letters.
    """
    unique("embedding_model")
    bench = make_bench(embed_batch_size=1)
    documents(bench, 20, embedding_model=bench.embedder.model)
    for _ in range(5):
        bench.step()
        bench.skip(10)
    assert bench.queue.status().failed == 5
    assert bench.queue.control.state().trouble == "outage"


def test_an_entity_that_cannot_be_read_hurts_no_other(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: `isolate` in `GraphCalls.read`."""
    bench.create(*names(20))
    refuse(monkeypatch, "read_wanted", lambda versions: "e007" in versions)
    (summary,) = bench.step()
    assert (summary.embedded, summary.failed, summary.released) == (19, 1, 0)
    assert failed(bench) == {"e007": "RuntimeError"}


def test_when_none_can_be_read_nothing_is_paid(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.create(*names(20))
    refuse(monkeypatch, "read_wanted", lambda _: True)
    (summary,) = bench.step()
    assert (summary.failed, summary.released, summary.requests) == (0, 20, 0)
    assert "RuntimeError" in (bench.queue.control.state().pause_reason or "")


def test_an_entity_whose_old_vector_cannot_be_removed_hurts_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blank texts. Guard: `isolate` in `GraphCalls.remove`."""
    bench.graph.recipe = bench.graph.recipe.of_properties(["description"])
    bench.graph.create_entities({"name": name, "description": " "} for name in names(8))
    bench.graph.create_entities([{"name": "worded", "description": "words"}])
    refuse(monkeypatch, "remove_vectors", lambda texts: any(text.uid == "e003" for text in texts))
    (summary,) = bench.step()
    assert (summary.failed, summary.embedded, summary.released) == (8, 1, 0)
    assert failed(bench)["e003"] == "RuntimeError"
    assert failed(bench)["e004"] == "UnembeddableText"


def test_a_copy_that_cannot_be_read_is_asked_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: `isolate` in `GraphCalls.copies`. Without it the batch is given back, without an end."""
    bench.graph.recipe = bench.graph.recipe.of_properties(["description"])
    bench.graph.create_entities({"name": name, "description": f"about {name}"} for name in names(4))
    bench.step()
    odd = bench.text("e001").content_hash
    refuse(monkeypatch, "copies", lambda hashes: odd in hashes)
    bench.graph.create_entities({"name": f"twin {n}", "description": f"about {n}"} for n in names(4))
    (summary,) = bench.step()
    assert (summary.embedded, summary.saved_other_entity, summary.inputs) == (4, 3, 1)


def test_a_graph_that_goes_away_in_between_keeps_what_passed(
    bench: Bench, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first part is written, then the graph is away: those are completed, the others are given back."""
    unique("embedding_hash")
    documents(bench, 8, "e007")
    sizes = counted(monkeypatch, "write_vectors")
    refuse(monkeypatch, "write_vectors", lambda _: len(sizes) > 1, ServiceUnavailable)
    (summary,) = bench.step()
    assert (summary.embedded, summary.failed, summary.released) == (4, 0, 4)
    assert "ServiceUnavailable" in (bench.queue.control.state().pause_reason or "")


def test_a_value_that_the_driver_cannot_read_is_no_part_of_the_text(bench: Bench) -> None:
    """Guard: `text._readable`. Without it the text is another one at each reading and a new job, without an end."""
    bench.create("a", "b")
    bench.graph.database.write("MATCH (n:Entity {name: 'a'}) SET n.observations = date('+10000-01-01')")
    bench.queue.enqueue(bench.text("a").request(bench.embedder.model))
    for _ in range(3):
        bench.step()
    status = bench.queue.status()
    assert (status.unfinished, status.total, status.failed) == (0, 3, 0)
    assert bench.text("a").fresh
    assert "BrokenHydration" not in "".join(bench.provider.inputs)


def test_a_fault_that_nobody_foresaw_in_the_sources_makes_the_queue_rest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: `as_outage` in `Pipeline._vectors`. Without it the batch spins."""
    bench.create(*names(3))

    def fail(*_: Any) -> None:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr(VectorSources, "get", fail)
    (summary,) = bench.step()
    assert (summary.released, summary.failed) == (3, 0)
    assert bench.queue.lease("test", batches=1).reason == "paused"
