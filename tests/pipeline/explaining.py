"""What the tests of `explain` share: a bench where beat and a worker are at work, and the question."""

from typing import Any

from neo4j_queue.queue.leases import Worker
from neo4j_queue.reconcile.explain import explain
from neo4j_queue.reconcile.explanation import Explanation
from tests.pipeline.conftest import Bench


def at_work(bench: Bench) -> Bench:
    """Beat ticks, and a worker with two slots answered a moment ago."""
    bench.queue.census.record([Worker("w@test", 2)])
    bench.queue.ticks.note(beat=True)
    return bench


def why(bench: Bench, name: str = "a", **settings: Any) -> Explanation:
    changed = bench.settings.model_copy(update=settings)
    return explain(bench.graph, bench.queue, changed, name)


def cypher(bench: Bench, statement: str, **parameters: Any) -> None:
    """What another program does."""
    bench.graph.database.write(statement, **parameters)
