"""SIGTERM and time limits at any moment of a batch: jobs are settled or given back, and nothing is charged."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from neo4j_queue.database import Address, Database
from neo4j_queue.local_services import LocalServices, free_ports
from neo4j_queue.mock_provider import error
from neo4j_queue.pipeline import Pipeline
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import Lease, Settlement
from neo4j_queue.queue.settle import SettleTransaction
from tests.alarm import interrupted_after
from tests.faultkit import Direction, TcpProxy
from tests.pipeline.conftest import Bench, StubEmbedder

# Every answer of the jobs database takes so long, so that a batch of some twenty answers can be hit anywhere.
ANSWER_S = 0.05
STEP_S = 0.04


class TimeLimit(Exception):
    """As the pool's soft time limit: an ordinary exception to whoever catches them all."""


INTERRUPTIONS = (SystemExit, TimeLimit)


@dataclass
class Slow:
    """A pipeline whose jobs database answers slowly."""

    bench: Bench
    proxy: TcpProxy
    pipeline: Pipeline

    def lease(self) -> Lease:
        (lease,) = self.bench.queue.lease("test", batches=1).leases
        return lease


@pytest.fixture
def slow(bench: Bench, services: LocalServices) -> Iterator[Slow]:
    with (
        TcpProxy(("127.0.0.1", services.jobs.port)) as proxy,
        Database(replace(services.jobs.address, uri=proxy.on_the_way_to(services.jobs.url))) as database,
    ):
        queue = EmbedQueue(database, bench.settings, clock=bench.clock)
        database.read("RETURN 1")
        proxy.delay(Direction.DOWN, ANSWER_S)
        pipeline = Pipeline(
            queue, bench.graph, bench.embedder, interruptions=INTERRUPTIONS, sleep=lambda _: None
        )
        yield Slow(bench, proxy, pipeline)


@pytest.mark.parametrize("kind", INTERRUPTIONS, ids=lambda kind: str(kind.__name__))
def test_wherever_a_batch_is_interrupted_its_jobs_are_settled_or_given_back(
    slow: Slow, kind: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    """Every few hundredths of a second once: in the start, in the end, and while the answer to a commit is awaited.

    Guards: the start and the settlement inside of the `try` of `Pipeline.run`, and the same `start_id` in `_give_back`.
    Without any of them some jobs stay `processing` until their lock runs out.
    """
    bench, moment, ends = slow.bench, 0.0, []
    while True:
        moment += STEP_S
        name = f"e{len(ends)}"
        bench.create(name)
        lease = slow.lease()
        with interrupted_after(moment, kind) as raised, suppress(*INTERRUPTIONS):
            slow.pipeline.run(lease.token, lease.job_ids)
        job = bench.job(name)
        assert job["status"] in ("pending", "completed"), f"interrupted after {moment:.2f} s: {job}"
        assert (job["attempts"], job["crashes"]) == (0, 0)
        (row,) = bench.queue.database.read(
            "MATCH (l:EmbedLease {token: $token}) RETURN l.open AS open, l.outcome AS outcome",
            token=lease.token,
        )
        assert row["open"] is None
        assert row["outcome"] in ("released", "completed")
        ends.append(job["status"])
        if not raised:
            break
        if job["status"] == "pending":
            bench.step()
    assert ends[0] == "pending"
    assert ends[-1] == "completed"
    assert len(ends) > 8, "some moments of each step were hit"
    assert "lease_lost" not in capsys.readouterr().out
    assert not bench.queue.control.state().trouble


def test_a_settlement_that_is_interrupted_at_its_commit_is_told_as_it_was_stored(
    slow: Slow, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commit takes place, its answer is not waited for.

    Guard: `before` in `SettleTransaction.store`. Without it the log says "lease lost", not how the job ended.
    """
    bench = slow.bench
    slow.proxy.delay(Direction.DOWN, 0.2)
    bench.create("a")
    lease = slow.lease()
    run = SettleTransaction.run

    def interrupted(settling: SettleTransaction, tx: Any) -> Settlement:
        monkeypatch.setattr(SettleTransaction, "run", run)
        settlement = run(settling, tx)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        return settlement

    monkeypatch.setattr(SettleTransaction, "run", interrupted)
    with interrupted_after(60, SystemExit), pytest.raises(SystemExit):
        slow.pipeline.run(lease.token, lease.job_ids)
    assert bench.job("a")["outcome"] == "embedded"
    lines = capsys.readouterr().out
    assert lines.count("embedding_job_completed") == 1
    assert "lease_lost" not in lines


def test_the_second_delivery_of_a_message_takes_nothing_from_the_first(slow: Slow) -> None:
    """It is interrupted while it asks to start what the first one runs, under the same token.

    Guard: `_give_back` starts by the same `start_id` before it releases anything. Without it the batch is taken away
    from the one that runs it.
    """
    bench = slow.bench
    bench.create("a")
    lease = slow.lease()
    bench.queue.start(lease.token, lease.job_ids, worker="first")
    with interrupted_after(ANSWER_S / 2, SystemExit), pytest.raises(SystemExit):
        slow.pipeline.run(lease.token, lease.job_ids)
    assert bench.job("a")["status"] == "processing"
    assert bench.job("a")["lease_token"] == lease.token


@pytest.mark.parametrize("where", ["read_wanted", "write_vectors", "read_texts", "embed"])
def test_a_time_limit_is_no_fault_of_what_it_interrupts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The soft limit is an ordinary exception.

    Guard: `except interruptions` before each `except Exception`. Without that of `ProviderCall` the job fails
    for good, with the limit as its error.
    """
    bench.create("a")
    bench.graph.database.write("MATCH (n:Entity {name: 'a'}) REMOVE n:EmbedPending")
    if where == "read_texts":
        bench.graph.update_entity("a", {"observations": ["another text"]})
    lease = bench.queue.lease("test", batches=1).leases[0]

    def limit(*_: Any) -> None:
        raise TimeLimit

    target: Any = bench.embedder if where == "embed" else bench.graph
    monkeypatch.setattr(type(target), where, limit)
    pipeline = Pipeline(bench.queue, bench.graph, bench.embedder, interruptions=INTERRUPTIONS)
    with pytest.raises(TimeLimit):
        pipeline.run(lease.token, lease.job_ids)
    assert bench.queue.status().processing == 0
    assert {job["attempts"] for job in bench.queue.jobs()} == {0}
    assert bench.queue.status().failed == 0
    assert bench.queue.control.state().trouble is None


def test_a_jobs_database_that_is_away_does_not_hide_the_interruption(slow: Slow) -> None:
    """The lease runs out by itself. Guard: the `except Exception` of `_give_back`."""
    bench = slow.bench
    bench.create("a")
    lease = slow.lease()

    def away_and_stopped(_texts: object) -> None:
        database = slow.pipeline._queue.database
        database.close()
        database.address = Address(f"bolt://127.0.0.1:{free_ports(1)[0]}", "neo4j")
        database._retry_time_s = 0
        raise SystemExit(0)

    slow.pipeline._embedder = StubEmbedder(bench.embedder, away_and_stopped)  # type: ignore[assignment]
    with pytest.raises(SystemExit):
        slow.pipeline.run(lease.token, lease.job_ids)
    assert bench.job("a")["status"] == "processing"


def test_an_outage_that_was_met_before_the_interruption_is_still_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted in the settlement of a rate limit: all workers rest all the same, and the second one settles.

    Guard: `Ledger.rest`. Without it the repetition knows no reason to rest.
    """
    bench.create("a")
    bench.provider.reply_next(error(429))
    failed = type(bench.queue.control).provider_failed
    calls: list[int] = []

    def interrupt_once(*args: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise SystemExit
        return failed(*args, **more)

    monkeypatch.setattr(type(bench.queue.control), "provider_failed", interrupt_once)
    with pytest.raises(SystemExit):
        bench.step()
    assert bench.job("a")["status"] == "pending"
    assert bench.queue.control.state().trouble == "rate_limit"
