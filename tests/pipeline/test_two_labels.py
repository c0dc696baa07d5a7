"""Two labels in one graph: the marks of one are none of the other's outbox."""

import pytest

from neo4j_queue.graph import known
from neo4j_queue.reconcile.sweep import Scope
from neo4j_queue.reconcile.turns import Sweeps
from tests.pipeline.conftest import Bench, MakeBench


def authors(bench: Bench, count: int, *, marked: int) -> None:
    bench.graph.database.write(
        "UNWIND range(1, $count) AS n CREATE (a:Author {name: 'author' + n}) "
        "FOREACH (_ IN CASE WHEN n <= $marked THEN [1] ELSE [] END | SET a:EmbedPending)",
        count=count,
        marked=marked,
    )


@pytest.mark.parametrize(("count", "marked"), [(8, 8), (8, 1), (1, 1), (8, 0)])
def test_the_outbox_holds_the_marks_of_the_label_alone(
    bench: Bench, make_bench: MakeBench, count: int, marked: int
) -> None:
    """Whichever of marks and entities are fewer. Seen failing with a count of all :EmbedPending: a search told that
    53,177 of 40 entities wait."""
    authors(bench, count, marked=marked)
    bench.create("a", "b", "c")
    bench.graph.database.write("MATCH (n {name: 'a'}) REMOVE n:EmbedPending")
    assert (bench.graph.known().nodes, bench.graph.known().outbox) == (3, 2)
    other = make_bench(embed_entity_label="Author").graph
    assert (other.known().nodes, other.known().outbox) == (count, marked)
    coverage = bench.graph.search("text", mode="keyword").coverage
    assert (coverage.entities, coverage.pending) == (3, 2)


def test_of_many_marks_a_bounded_number_is_looked_at(
    bench: Bench, make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest counts in full, so the figure is never too low, and never above the number of entities. Seen failing
    without the LIMIT in graph/with_both: the figure is exact, and its cost grows with the outbox."""
    monkeypatch.setattr(known, "MARKS_LOOKED_AT", 3)
    authors(bench, 10, marked=4)
    bench.create("a", "b")
    assert bench.graph.known().outbox == 2, "two entities are fewer than six marks"
    bench.create("c", "d", "e")
    # Of nine marks three are looked at, so at least two of the five others count in full.
    assert 6 <= make_bench(embed_entity_label="Author").graph.known().outbox <= 9
    assert bench.graph.known().outbox == 5, "all that were not looked at wait, and no more than there are"


def test_marks_of_another_label_begin_no_sweep(bench: Bench) -> None:
    """Every two seconds it would walk over all of them, and find none of its own. Seen failing with a count of all
    :EmbedPending."""
    authors(bench, 5, marked=5)
    sweeps = Sweeps(bench.graph, bench.queue, now=lambda: bench.clock.now)
    assert sweeps.not_now(Scope.OUTBOX) == "the outbox is empty"
    bench.create("a")
    assert sweeps.not_now(Scope.OUTBOX) is None
