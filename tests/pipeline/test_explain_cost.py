"""What `explain` costs: the same at three hundred entities and jobs and at thirty thousand."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from neo4j import ManagedTransaction, Record

from neo4j_queue.database import Database
from neo4j_queue.graph import look
from neo4j_queue.queue import outlook, standing
from neo4j_queue.reconcile.explanation import Reason
from tests.pipeline.conftest import Bench
from tests.pipeline.explaining import at_work, why

SMALL, LARGE = 300, 30_000
# Bounds of the answer that both sizes reach.
BOUND = 20
# Lookups of one more page of an index, and of a sample that is full.
ALLOWED = 1.5

GRAPH = """
UNWIND range($first, $last) AS n
CALL (n) {
  CREATE (:Entity {name: 'made-' + n, observations: ['x']})
  CREATE (:Thing {name: 'thing-' + n})
} IN TRANSACTIONS OF 10000 ROWS
"""
JOBS = """
UNWIND range($first, $last) AS n
CALL (n) {
  CREATE (:EmbedJob {id: 'job-' + n, entity_uid: 'made-' + n, model: 'test-model', version: 'v' + n, status: 'pending',
    priority: n % 10, created_at: 1, available_at: 1, attempts: 0, max_attempts: 3, crashes: 0, est_tokens: 10})
} IN TRANSACTIONS OF 10000 ROWS
"""

T = TypeVar("T")


class Profiled:
    """Hands the rows of a statement through and counts its database hits."""

    def __init__(self, tx: ManagedTransaction, hits: list[int]) -> None:
        self._tx = tx
        self._hits = hits

    def run(self, query: str, parameters: dict[str, Any]) -> list[Record]:
        if "SHOW INDEXES" in query or "db.labels" in query:
            return list(self._tx.run(query, parameters))  # type: ignore[arg-type, unused-ignore]
        result = self._tx.run(query.replace("\n", " PROFILE\n", 1), parameters)  # type: ignore[arg-type, unused-ignore]
        found = list(result)
        profile = result.consume().profile
        assert profile is not None
        self._hits.append(_sum(profile))
        return found


def _sum(plan: dict[str, Any]) -> int:
    return int(plan.get("dbHits", 0)) + sum(_sum(child) for child in plan.get("children", ()))


@pytest.fixture
def hits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The database hits of each statement, while the test sets `measured`."""
    counted: list[int] = []
    plain = Database.transaction

    def profiled(self: Database, work: Callable[[ManagedTransaction], T], **options: Any) -> T:
        return plain(self, lambda tx: work(Profiled(tx, counted)), **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Database, "transaction", profiled)
    for module, name in ((look, "NEAR"), (look, "SAMPLE"), (standing, "COUNTED"), (outlook, "SAMPLE")):
        monkeypatch.setattr(module, name, BOUND)
    return counted


@pytest.mark.parametrize(
    ("name", "reason"),
    [("last", Reason.BEHIND_OTHERS), ("thing-7", Reason.OTHER_LABEL), ("made-", Reason.NOT_FOUND)],
)
def test_the_cost_grows_neither_with_the_graph_nor_with_the_queue(
    bench: Bench, hits: list[int], name: str, reason: Reason
) -> None:
    """Guards: `most` of graph/named_otherwise and graph/has_key, and of jobs/ahead; without any, thirty thousand are
    looked at."""
    at_work(bench)
    bench.graph.database.autocommit("CREATE INDEX things IF NOT EXISTS FOR (t:Thing) ON (t.name)")
    cost: dict[int, int] = {}
    try:
        first = 0
        for size in (SMALL, LARGE):
            bench.graph.database.autocommit(GRAPH, first=first, last=size - 1)
            bench.queue.database.autocommit(JOBS, first=first, last=size - 1)
            first = size
            if size == SMALL:
                bench.create("last")
            why(bench, name)
            hits.clear()
            assert why(bench, name).reason is reason
            cost[size] = sum(hits)
    finally:
        bench.graph.database.autocommit("DROP INDEX things IF EXISTS")
    assert cost[LARGE] <= ALLOWED * cost[SMALL], cost
