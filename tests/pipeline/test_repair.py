"""The search for entities that nobody takes care of, among many that are."""

import itertools
from functools import partial

import pytest
from structlog.testing import capture_logs

from neo4j_queue import repair
from neo4j_queue.repair import discover, force_generate_embedding
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
