"""What all workers have done, counted in the jobs database: as the provider's journal has it, and never twice."""

import math
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from neo4j.exceptions import IncompleteCommit

from neo4j_queue.database import Database
from neo4j_queue.errors import UnembeddableText, classify
from neo4j_queue.http import metrics
from neo4j_queue.jobs import JobRequest, Outcome
from neo4j_queue.mock_provider import Reply
from neo4j_queue.mock_provider.replies import error, mangled
from neo4j_queue.queue import EmbedQueue, tally
from neo4j_queue.queue.leases import Completion, Failure, Spent, Verdicts
from neo4j_queue.queue.tally import Measured
from tests.pipeline.conftest import Bench, MakeBench

MIXED_S = (0.0, 0.03, 0.07, 0.15, 0.3, 0.6)


def counted(database: Database) -> tally.Counts:
    return tally.total(tally.read(database))


def of(counts: tally.Counts, beginning: str) -> dict[str, float]:
    return {name.partition(":")[2]: n for name, n in counts.items() if name.startswith(beginning + ":") and n}


def quantile_bucket(counts: tally.Counts, histogram: tally.Histogram, share: float) -> int:
    """The number of the bucket that a quantile is in."""
    there = [counts[name] for name in histogram.buckets]
    rank, below = math.ceil(share * sum(there)), 0.0
    for n, count in enumerate(there):
        below += count
        if below >= rank:
            return n
    raise AssertionError("nothing was counted")


def bucket_of(times: Sequence[float], histogram: tally.Histogram, share: float) -> int:
    return bisect_left(histogram.bounds, sorted(times)[math.ceil(share * len(times)) - 1])


def test_requests_inputs_tokens_and_times_are_those_of_the_providers_journal(make_bench: MakeBench) -> None:
    """Each quantile is right within one bucket: the provider's own times are a little shorter than the caller's."""
    bench = make_bench(embed_batch_size=3, embedding_price_per_million_tokens=2)
    bench.create(*(f"e{n}" for n in range(60)))
    bench.provider.reply_next(*(Reply(latency_s=MIXED_S[n % len(MIXED_S)]) for n in range(20)))
    began = time.monotonic()
    while bench.queue.status().unfinished:
        bench.step()
    took_s = time.monotonic() - began
    counts, journal = counted(bench.queue.database), bench.provider.journal
    assert of(counts, "requests") == Counter(str(request.status) for request in journal)
    assert (counts["batches"], counts["inputs"], of(counts, "completed")) == (20, 60, {"embedded": 60})
    assert counts["tokens"] == sum(request.tokens for request in journal)
    assert counts["dollars"] == pytest.approx(counts["tokens"] * 2 / 1e6)
    times = [request.finished_at - request.at for request in journal if request.finished_at is not None]
    for share in (0.5, 0.95, 0.99):
        seen = quantile_bucket(counts, tally.REQUEST_S, share)
        assert abs(seen - bucket_of(times, tally.REQUEST_S, share)) <= 1, f"p{share * 100:.0f}"
        # A batch is its request and its transactions.
        assert quantile_bucket(counts, tally.BATCH_S, share) >= bucket_of(times, tally.BATCH_S, share)
    assert sum(times) <= counts["request_s_sum"] <= counts["batch_s_sum"] <= took_s
    assert sum(counts[name] for name in tally.WAITED_S.buckets) == 60


def test_each_kind_of_answer_is_counted_by_its_status(bench: Bench) -> None:
    replies = {
        "500": error(500),
        "timeout": Reply(silent=True),
        "connection": Reply(hang_up=True),
        "unusable": mangled("half"),
        "429": error(429),
        "4xx": error(418),
    }
    for name, reply in replies.items():
        bench.create(name)
        bench.provider.reply_next(reply)
        bench.step()
        bench.queue.resume()
    found = of(counted(bench.queue.database), "requests")
    assert {status: found.get(status, 0) >= 1 for status in replies} == dict.fromkeys(replies, True)
    assert sum(found.values()) == len(bench.provider.journal)


def test_what_needs_no_input_is_counted_by_why(bench: Bench) -> None:
    bench.create("a", "b", text="the same text")
    bench.graph.database.write("MATCH (n:Entity {name: 'b'}) SET n.name = 'c'")
    bench.queue.enqueue([bench.text("a").request("test-model"), bench.text("c").request("test-model")])
    bench.step()
    counts = counted(bench.queue.database)
    assert of(counts, "completed")["entity_deleted"] == 1
    bench.queue.enqueue([replace(bench.text("a").request("test-model"), force=True)])
    bench.step()
    assert of(counted(bench.queue.database), "saved") == {"current": 1}


def started(queue: EmbedQueue, *names: str) -> tuple[str, list[str]]:
    queue.enqueue([JobRequest(name, "m", "0" * 16) for name in names])
    (lease,) = queue.lease("test", batches=1).leases
    queue.start(lease.token, lease.job_ids)
    return lease.token, list(lease.job_ids)


SPENT = Spent(2, 30, 0, 4, 1, Measured(0.2, (("200", 0.1), ("500", 0.3)), {"cached": 1}))


def test_a_settlement_that_is_repeated_counts_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to its commit was lost. Fails without `l.open` in `jobs/close_lease`."""
    token, ids = started(bench.queue, "a", "b")
    real, lost = bench.queue.database.transaction, []

    def transaction(work, **options):  # type: ignore[no-untyped-def]
        done = real(work, **options)
        if not lost:
            lost.append(done)
            raise IncompleteCommit
        return done

    monkeypatch.setattr(bench.queue.database, "transaction", transaction)
    verdicts = Verdicts(completed=[Completion(each, Outcome.EMBEDDED) for each in ids])
    settlement = bench.queue.settle(token, verdicts, spent=SPENT)
    assert len(settlement.completed) == 2
    counts = counted(bench.queue.database)
    assert (counts["batches"], of(counts, "completed"), of(counts, "requests")) == (
        1,
        {"embedded": 2},
        {"200": 1, "500": 1},
    )
    assert (counts["tokens"], counts["inputs"], counts["lost"], counts["leases_lost"]) == (30, 4, 0, 0)


def test_what_is_lost_recovered_and_stale_is_counted(make_bench: MakeBench) -> None:
    bench = make_bench(embed_job_max_crashes=0)
    token, ids = started(bench.queue, "a", "b")
    bench.skip(10_000)
    assert len(bench.queue.recover_stale()) == 2
    verdicts = Verdicts(completed=[Completion(each, Outcome.EMBEDDED) for each in ids])
    bench.queue.settle(token, verdicts, spent=SPENT)
    assert bench.queue.start(token, ids).refused == "lost"
    counts = counted(bench.queue.database)
    assert of(counts, "failed") == {"worker_lost:TRANSIENT": 2}
    assert (counts["leases_expired"], counts["leases_lost"], counts["lost"]) == (1, 1, 2)
    assert counts["stale_messages"] == 1
    # What the lost worker asked for is not known: what its lease had booked is.
    assert of(counts, "requests") == {"unconfirmed": 1}
    assert counts["batches"] == 0
    bench.queue.retry_failed()
    bench.queue.halt("x")
    bench.queue.halt("again")
    bench.queue.pause(1, "y")
    counts = counted(bench.queue.database)
    assert (counts["requeued"], counts["halts"], of(counts, "pauses")) == (2, 1, {"person": 1})


def test_the_nodes_are_few_however_many_jobs_there_are(bench: Bench) -> None:
    """Nothing is kept for a job, a batch or a status."""
    for n in range(40):
        token, ids = started(bench.queue, f"e{n}")
        bench.queue.settle(token, Verdicts(completed=[Completion(ids[0], Outcome.EMBEDDED)]), spent=SPENT)
    rows = bench.queue.database.read("MATCH (m:EmbedCounts) RETURN count(m) AS n, sum(size(keys(m))) AS keys")
    assert rows[0]["n"] <= tally.SHARDS + 1
    assert rows[0]["keys"] <= (tally.SHARDS + 1) * 30
    assert counted(bench.queue.database)["batches"] == 40


def test_failures_and_retries_are_told_apart(bench: Bench) -> None:
    bench.queue.enqueue([JobRequest(name, "m", "0" * 16) for name in ("a", "b")])
    (lease,) = bench.queue.lease("test", batches=1).leases
    one, two = bench.queue.start(lease.token, lease.job_ids).jobs
    failed = [Failure(one, classify(UnembeddableText("empty"))), Failure(two, classify(TimeoutError()))]
    bench.queue.settle(lease.token, Verdicts(failed=failed))
    counts = counted(bench.queue.database)
    assert sum(of(counts, "failed").values()) + sum(of(counts, "retried").values()) == 2
    assert of(counts, "failed")["permanent_error:PERMANENT"] >= 1


def test_the_metrics_read_them(bench: Bench) -> None:
    bench.create("a")
    bench.step()
    found = list(metrics._of_counts(tally.read(bench.queue.database)))
    names = {family.name for family in found}
    assert "neo4j_queue_batches" in names
