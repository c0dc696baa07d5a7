"""The search for entities that nobody takes care of, among many that are."""

import itertools
from functools import partial

import pytest
from structlog.testing import capture_logs

from neo4j_queue.reconcile import repair
from neo4j_queue.reconcile.repair import discover, force_generate_embedding
from tests.pipeline.conftest import Bench
from tests.queue.scenery import CountingDatabase

TAKEN = 2_500


@pytest.fixture
def backfill(bench: Bench) -> Bench:
    """Many entities with a pending job, and behind them two that have none."""
    bench.create(*(f"e{n:04}" for n in range(TAKEN)))
    bench.graph.database.write("UNWIND ['z1', 'z2'] AS name CREATE (:Entity {name: name})")
    return bench


def test_the_few_that_are_free_are_found_in_large_steps(backfill: Bench) -> None:
    """Guard: `PAGE`. With pages of `limit`, these ten are 250 looks."""
    with CountingDatabase(backfill.queue.database.address) as counting:
        backfill.queue.database = counting
        found = discover(backfill.graph, backfill.queue, 10)
        assert [text.uid for text in found] == ["z1", "z2"]
        assert counting.calls == 3
    assert [text.uid for text in discover(backfill.graph, backfill.queue, 1)] == ["z1"]


def test_the_search_ends_in_bounded_time_and_says_so(
    backfill: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary counts what was found; the log says that this was not all. Guard: `SEARCH_S`."""
    seconds = itertools.count(step=0.6 * repair.SEARCH_S)
    monkeypatch.setattr(repair, "discover", partial(discover, clock=lambda: next(seconds)))
    with capture_logs() as logs:
        summary = force_generate_embedding(backfill.graph, backfill.queue)
    assert (summary["success"], summary["limit"], summary["discovered"]) == (True, 10, 0)
    (line,) = [line for line in logs if line["event"] == "repair_search_ended"]
    assert (line["log_level"], line["passed_over"], line["found"]) == ("warning", 1_000, 0)


@pytest.mark.parametrize(
    "damaged", ["[0.1, 0.2]", "'no vector'", "[n IN range(1, 256) | 0.0]", "[n IN range(1, 256) | 0.0/0.0]"]
)
def test_a_damaged_vector_is_made_anew_for_whoever_asks(bench: Bench, damaged: str) -> None:
    """Somebody else wrote it over; model and hash still say that it is the text's. Guard: `distrust_broken`."""
    bench.create("one")
    bench.step()
    good = bench.vector("one")
    bench.graph.database.write(f"MATCH (n:Entity {{name: 'one'}}) SET n.embedding = {damaged}")
    assert force_generate_embedding(bench.graph, bench.queue, "one")["outcome"] == "requeued"
    bench.step()
    assert bench.vector("one") == good


def test_a_sound_vector_is_not_paid_for_again(bench: Bench) -> None:
    """Invariant 7, for the tool as well."""
    bench.create("one")
    bench.step()
    paid = len(bench.provider.inputs)
    force_generate_embedding(bench.graph, bench.queue, "one")
    bench.step()
    assert (bench.job("one")["outcome"], len(bench.provider.inputs)) == ("already_current", paid)
