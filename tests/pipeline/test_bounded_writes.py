"""Writes of vectors: how many entities one transaction holds, and what a lock of another transaction holds up."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from neo4j import ManagedTransaction

from neo4j_queue.embedders.vector_cache import MEGABYTE, VectorCache
from neo4j_queue.graph.vectors import EntityVectors
from neo4j_queue.pipeline import Pipeline
from neo4j_queue.pipeline.graph_calls import MOST_LOCK_WAITS, WRITE_NUMBERS
from tests.pipeline.conftest import Bench, MakeBench

# `db.lock.acquisition.timeout` of the test servers, and what a busy machine adds to it.
LOCK_WAIT_S = 5.0
MARGIN_S = 4.0


def names(count: int) -> list[str]:
    return [f"e{n:04}" for n in range(count)]


@contextmanager
def locked(bench: Bench, *uids: str) -> Iterator[None]:
    """Another program's transaction, such as an import, holds these entities."""
    with bench.graph.database.driver().session() as session, session.begin_transaction() as tx:
        tx.run("MATCH (n:Entity) WHERE n.name IN $uids SET n.held = true", uids=list(uids)).consume()
        yield
        tx.rollback()


def sizes_of_writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []
    real = EntityVectors._write

    def count(graph: EntityVectors, tx: ManagedTransaction, writes: Any, *, exact: bool) -> Any:
        sizes.append(len(writes))
        return real(graph, tx, writes, exact=exact)

    monkeypatch.setattr(EntityVectors, "_write", count)
    return sizes


@pytest.mark.parametrize("exact", [True, False])
def test_the_size_of_a_write_does_not_follow_that_of_the_request(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch, exact: bool
) -> None:
    """One request of 600 texts is written in transactions of a bounded number of numbers.

    Seen failing before: one transaction of 600 entities.
    """
    bench = make_bench(embed_batch_size=600)
    sizes = sizes_of_writes(monkeypatch)
    bench.create(*names(600))
    if not exact:
        bench.graph.database.write("MATCH (n:Entity) SET n.observations = 1.5")
        bench.queue.database.write("MATCH (j:EmbedJob) DELETE j")
        bench.queue.enqueue(bench.text(name).request(bench.embedder.model) for name in names(600))
    (summary,) = bench.step()
    assert (summary.embedded, summary.requests) == (600, 1)
    most = WRITE_NUMBERS // 256
    assert (max(sizes), len(sizes)) == (most, -(-600 // most))


def test_an_entity_that_is_locked_holds_up_no_other(make_bench: MakeBench) -> None:
    """One wait for the lock, then the others are written, and the locked one stands back with its vector in memory.

    Seen failing before: the whole batch waited for a minute, until the server ended the other transaction.
    """
    bench = make_bench(embed_batch_size=300)
    bench.pipeline = Pipeline(
        bench.queue, bench.graph, bench.embedder, worker="test", cache=VectorCache(MEGABYTE)
    )
    bench.create(*names(300))
    (lease,) = bench.queue.lease("test", batches=1).leases
    with locked(bench, "e0123"):
        began = time.monotonic()
        summary = bench.pipeline.run(lease.token, lease.job_ids)
        took = time.monotonic() - began
    assert (summary.embedded, summary.released, summary.failed, summary.retried) == (299, 1, 0, 0)
    assert took < LOCK_WAIT_S + MARGIN_S
    state = bench.queue.control.state()
    assert (state.trouble, state.paused_until) == (None, None)
    job = bench.job("e0123")
    assert (job["status"], job["attempts"], job["error_type"]) == ("pending", 0, "EntityLocked")
    assert not bench.step(), "it stands back"
    bench.skip(16)
    (summary,) = bench.step()
    assert (summary.embedded, summary.saved_cached, summary.requests) == (1, 1, 0)
    assert len(bench.provider.inputs) == 300


def test_a_lock_that_is_not_named_is_found_by_halves(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers without a bound of their own, or of other words: a few waits, and no more."""
    monkeypatch.setattr(EntityVectors, "_named_by", lambda *_: None)
    monkeypatch.setattr("neo4j_queue.graph.vectors.WRITE_TIMEOUT_S", 0.5)
    bench = make_bench()
    bench.create(*names(8))
    (lease,) = bench.queue.lease("test", batches=1).leases
    with locked(bench, "e0003"):
        summary = bench.pipeline.run(lease.token, lease.job_ids)
    assert (summary.embedded, summary.released, summary.failed) == (7, 1, 0)


def test_an_import_that_holds_everything_is_waited_for_a_bounded_time(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No job is judged, and the batch ends after a few waits however many entities are held."""
    monkeypatch.setattr("neo4j_queue.graph.vectors.WRITE_TIMEOUT_S", 0.5)
    monkeypatch.setattr("neo4j_queue.pipeline.graph_calls.WRITE_NUMBERS", 256 * 4)
    bench = make_bench()
    bench.create(*names(60))
    waits: list[int] = []
    real = EntityVectors._with_locks

    def count(graph: EntityVectors, work: Any) -> Any:
        try:
            return real(graph, work)
        except Exception:
            waits.append(1)
            raise

    monkeypatch.setattr(EntityVectors, "_with_locks", count)
    (lease,) = bench.queue.lease("test", batches=1).leases
    with locked(bench, *names(60)):
        summary = bench.pipeline.run(lease.token, lease.job_ids)
    assert (summary.embedded, summary.released, summary.failed) == (0, 60, 0)
    assert len(waits) == MOST_LOCK_WAITS + 1
    bench.skip(16)
    (summary,) = bench.step()
    assert summary.embedded == 60


def test_a_blank_text_whose_entity_is_locked_stands_back(bench: Bench) -> None:
    """The removal of an old vector waits once as well. Seen failing before: every worker rested."""
    bench.graph.recipe = bench.graph.recipe.of_properties(["description"])
    bench.graph.create_entities({"name": name, "description": " "} for name in names(5))
    (lease,) = bench.queue.lease("test", batches=1).leases
    with locked(bench, "e0002"):
        summary = bench.pipeline.run(lease.token, lease.job_ids)
    assert (summary.failed, summary.released) == (4, 1)
    assert bench.queue.control.state().paused_until is None


def test_an_edit_during_a_large_write_does_not_wait_for_all_of_it(make_bench: MakeBench) -> None:
    """Its entity is locked for the time of one part. Seen failing before: it waited for the whole write."""
    bench = make_bench(embed_batch_size=2_000)
    bench.create(*names(2_000))
    (lease,) = bench.queue.lease("test", batches=1).leases
    worker = threading.Thread(target=bench.pipeline.run, args=(lease.token, lease.job_ids))
    took: list[float] = []
    worker.start()
    bench.provider.wait_for(finished=1)
    began_all = time.monotonic()
    for n in range(0, 2_000, 10):
        if not worker.is_alive():
            break
        began = time.monotonic()
        bench.graph.database.write(f"MATCH (n:Entity {{name: 'e{n:04}'}}) SET n.seen = true")
        took.append(time.monotonic() - began)
    worker.join(60)
    whole = time.monotonic() - began_all
    assert max(took) < max(0.5, whole / 2)
