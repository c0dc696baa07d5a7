"""How much of the graph is said to be fresh: what is known, since when, and what is not known."""

import pytest

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.graph.entities import Coverage
from neo4j_queue.mock_provider import error
from neo4j_queue.names import VECTOR
from neo4j_queue.reconcile import coverage
from neo4j_queue.reconcile import sweep as sweeps
from neo4j_queue.reconcile.coverage import KnownCoverage, known_coverage
from neo4j_queue.reconcile.sweep import Scope, sweep
from neo4j_queue.reconcile.turns import Sweeps
from tests.pipeline.conftest import Bench, MakeBench


def known(bench: Bench) -> KnownCoverage:
    return known_coverage(bench.graph, bench.queue, bench.queue.status().unfinished)


def counts(found: KnownCoverage) -> tuple[int, int | None, int | None, int | None]:
    return (found.entities, found.fresh, found.stale, found.missing)


def edit_by_another_program(bench: Bench, *names: str) -> None:
    bench.graph.database.write(
        "MATCH (n:Entity) WHERE n.name IN $names SET n.observations = ['edited']", names=list(names)
    )


def test_a_small_graph_is_counted_now(bench: Bench) -> None:
    bench.create("a", "b")
    bench.step()
    bench.graph.database.write("CREATE (:Entity {name: 'c'})")
    found = known(bench)
    assert counts(found) == (3, 2, 0, 1)
    assert found.as_of is not None
    assert (found.compared_at, found.outbox) == (None, 0)


def test_jobs_for_changed_texts_count_as_stale(bench: Bench) -> None:
    """Another program has changed the texts, a sweep has found it and queued them: they are known to be stale. Guard:
    `unfinished`; without it they are shown as fresh."""
    bench.create("a", "b", "c")
    bench.step()
    edit_by_another_program(bench, "a", "b")
    assert counts(known(bench)) == (3, 3, 0, 0), "not known yet"
    assert known(bench).compared_at is None, "and it is said that nobody has compared them"
    sweep(bench.graph, bench.queue, Scope.ALL)
    found = known(bench)
    assert counts(found) == (3, 1, 2, 0)
    assert found.compared_at is not None
    bench.step()
    assert counts(known(bench)) == (3, 3, 0, 0)


def test_of_a_large_graph_the_figures_of_the_last_sweep_are_shown_with_their_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No figure is shown before there was one. Guard: `COUNTED_NOW`; counting walks over all entities."""
    monkeypatch.setattr(coverage, "COUNTED_NOW", 2)
    monkeypatch.setattr(bench.graph, "coverage", lambda: pytest.fail("it counted"))
    bench.create("a", "b", "c")
    bench.step()
    assert known(bench) == KnownCoverage(3, None, None, None, None, None, 0)
    edit_by_another_program(bench, "a")
    bench.graph.database.write("CREATE (:Entity {name: 'd'})")
    sweep(bench.graph, bench.queue, Scope.MISSING)
    assert known(bench).as_of is None, "that one has compared no text"
    sweeps = Sweeps(bench.graph, bench.queue, clock=lambda: 0.0, now=lambda: bench.clock.now)
    sweeps.take_turn(Scope.ALL)
    found = known(bench)
    assert counts(found) == (4, 2, 1, 1)
    assert found.as_of == found.compared_at == bench.clock.now
    bench.step()
    assert counts(known(bench)) == (4, 2, 1, 1), "those of that time, and its time beside them"


@pytest.mark.parametrize("in_turns", [True, False])
@pytest.mark.parametrize("at_hand", [0, 50_000], ids=["large", "counted now"])
def test_figures_of_a_sweep_under_other_settings_are_not_shown(
    bench: Bench, make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch, in_turns: bool, at_hand: int
) -> None:
    """They are of other entities: a graph of 62,000 was said to hold none. Seen failing without `differing` in
    `_last_full_sweep`; and without `last_made_for` in sweeps/move and sweeps/ended the own figures are not known."""
    monkeypatch.setattr(coverage, "COUNTED_NOW", at_hand)
    bench.create("a", "b", "c")
    bench.graph.database.write("CREATE (:Author {name: 'someone'})")
    if in_turns:
        Sweeps(bench.graph, bench.queue, clock=lambda: 0.0).take_turn(Scope.ALL)
    else:
        sweep(bench.graph, bench.queue, Scope.ALL)
    assert counts(known(bench)) == (3, 0, 0, 3)
    assert known(bench).compared_at is not None
    other = known(make_bench(embed_entity_label="Author"))
    assert other.entities == 1
    assert (other.compared_at, other.failed, other.oldest_stale_at) == (None, None, None)
    assert (other.as_of is None) == (at_hand == 0)
    other_model = known(make_bench(openai_embedding_model="other-model"))
    assert other_model.compared_at is None, "the same entities, and none of these vectors is looked at"
    assert known(bench).compared_at is not None, "its own are still known"


@pytest.mark.parametrize("in_turns", [True, False])
def test_the_full_sweep_counts_failed_entities_and_the_oldest_stale_vector(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, in_turns: bool
) -> None:
    """Exact figures of its time, also over several turns. Fails without `oldest_stale_at` in sweeps/claim (a later turn
    forgets what the first one saw), and without `last_failed` in sweeps/move or sweeps/ended."""
    monkeypatch.setattr(coverage, "COUNTED_NOW", 0)
    monkeypatch.setattr(sweeps, "PAGE", 2)
    bench.create(*"abcdefgh")
    bench.provider.reply_to_text("Name: h", error(400, message="no such words"))
    bench.step()
    made = "MATCH (n:Entity {name: $name}) SET n.embedded_at = $at, n.observations = ['edited']"
    for name, at in (("b", 2_000), ("c", 1_000), ("f", 3_000)):
        bench.graph.database.write(made, name=name, at=at)
    # What another program has left there is no time.
    bench.graph.database.write(
        "MATCH (n:Entity {name: 'g'}) SET n.embedded_at = 'yesterday', n.observations = ['x']"
    )
    if in_turns:
        turns = Sweeps(bench.graph, bench.queue, clock=iter(range(100)).__next__, now=lambda: bench.clock.now)
        turn = turns.take_turn(Scope.ALL)
        while turn is not None and turn.token is not None:
            turn = turns.take_turn(Scope.ALL, turn.token)
    else:
        sweep(bench.graph, bench.queue, Scope.ALL)
    found = known(bench)
    assert counts(found) == (8, 3, 4, 1)
    assert (found.failed, found.oldest_stale_at) == (1, 1_000)
    assert found.as_of == found.compared_at is not None


def test_nothing_that_grows_with_the_graph_is_asked(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large graph: the server's own counts, and the node of the last sweep. Fails with `COUNTED_NOW` out of the
    way: the coverage is counted."""
    monkeypatch.setattr(coverage, "COUNTED_NOW", 0)
    bench.create("a")
    sweep(bench.graph, bench.queue, Scope.ALL)
    asked: list[str] = []
    read = Database.read
    monkeypatch.setattr(
        Database, "read", lambda self, query, **more: (asked.append(query), read(self, query, **more))[1]
    )
    known_coverage(bench.graph, bench.queue, 0)
    names = {"label": "Entity", "key": "name", **VECTOR.identifiers}
    assert asked == [
        statement("graph/known", **names),
        statement("graph/with_both", among="EmbedPending", label="Entity"),
        statement("sweeps/last"),
        statement("server/store"),
    ]


def test_what_the_server_knows_agrees_with_a_count(bench: Bench) -> None:
    bench.create("a", "b")
    bench.step()
    bench.create("c")
    bench.graph.database.write("MATCH (n:Entity {name: 'a'}) SET n.validTo = 1")
    known = bench.graph.known()
    assert (known.nodes, known.outbox) == (3, 1)
    assert bench.graph.coverage() == Coverage(entities=2, fresh=1, stale=0, missing=1)
