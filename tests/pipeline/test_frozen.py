"""A process that is frozen in the middle of its work, while its lease runs out and another one does the work (B9)."""

import inspect
import time
from collections.abc import Callable
from typing import Any

import pytest

from neo4j_queue.graph import EntityGraph
from neo4j_queue.pipeline import Pipeline
from neo4j_queue.pipeline.pipeline import uptime
from tests.pipeline.conftest import Bench, StubEmbedder


@pytest.mark.parametrize(("where", "requests"), [("before its request", 1), ("behind its answer", 2)])
def test_what_was_frozen_asks_whether_the_work_is_still_its_own(
    bench: Bench, where: str, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It neither pays nor writes.

    Guard: `Pipeline._still_ours`; without it the text is paid for again, or the vector is written again.
    """
    bench.create("a")
    (lease,) = bench.queue.lease("frozen", batches=1).leases
    lock_ms = bench.settings.embed_job_lock_duration_ms
    elapsed_s = 0.0
    written_at: list[int] = []

    def then_frozen(act: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def acting(what: Any) -> Any:
            nonlocal elapsed_s
            answer = act(what)
            elapsed_s = lock_ms / 1000 + 1
            bench.skip(elapsed_s)
            bench.queue.recover_stale()
            assert [summary.embedded for summary in bench.step()] == [1]
            written_at.append(embedded_at(bench))
            return answer

        return acting

    graph = EntityGraph.from_settings(
        bench.settings, enqueue=bench.queue.enqueue, database=bench.graph.database
    )
    embedder: Any = bench.embedder
    if where == "before its request":
        monkeypatch.setattr(graph, "read_wanted", then_frozen(graph.read_wanted))
    else:
        embedder = StubEmbedder(bench.embedder, then_frozen(bench.embedder.embed))
    frozen = Pipeline(bench.queue, graph, embedder, lock_ms=lock_ms, monotonic=lambda: elapsed_s)
    summary = frozen.run(lease.token, lease.job_ids)
    assert (summary.embedded, summary.lost) == (0, 1)
    assert len(bench.provider.journal) == requests
    assert [embedded_at(bench)] == written_at
    assert (bench.job("a")["status"], bench.job("a")["attempts"]) == ("completed", 0)


def embedded_at(bench: Bench) -> int:
    """When the vector of the entity was written, in epoch ms of the server."""
    (row,) = bench.graph.database.read("MATCH (n:Entity {name: 'a'}) RETURN n.embedded_at AS at")
    return int(row["at"])


def test_the_time_of_a_suspended_machine_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease runs on while a virtual machine sleeps. Guard: CLOCK_BOOTTIME; the monotonic clock stands still then."""
    monkeypatch.setattr(time, "clock_gettime", {time.CLOCK_BOOTTIME: 700.0, time.CLOCK_MONOTONIC: 1.0}.get)
    assert uptime() == 700.0
    assert inspect.signature(Pipeline).parameters["monotonic"].default is uptime
