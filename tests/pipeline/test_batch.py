"""One leased batch from start to finish (A4, C6, C10, C14, D4 and the actions of 04: release, pause, halt)."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from neo4j_queue.jobs import JobRequest
from neo4j_queue.mock_provider import Reply, error, mangled, vector_for
from neo4j_queue.pipeline.pipeline import Summary
from tests.pipeline.conftest import Bench, MakeBench, StubEmbedder

RATE = {"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}}
QUOTA = {"error": {"message": "no credit", "type": "insufficient_quota", "code": "insufficient_quota"}}
BAD = {"error": {"message": "cannot embed this", "type": "invalid_request_error"}}


def test_each_text_is_asked_for_once_and_lands_on_its_entity(bench: Bench) -> None:
    bench.create("a", "b")
    bench.graph.create_entities([{"name": "c", "observations": ["text of c"]}])
    (summary,) = bench.step()
    assert (summary.embedded, summary.requests, summary.inputs) == (3, 1, 3)
    for name in "abc":
        assert bench.vector(name) == pytest.approx(vector_for(bench.text(name).text, 256), abs=1e-6)
        assert bench.text(name).fresh


def test_the_same_text_twice_in_a_batch_is_one_input(bench: Bench) -> None:
    """Five entities of one text: paid for once, written to all (C10)."""
    bench.graph.recipe = bench.graph.recipe.of_properties(["observations"])
    bench.graph.create_entities({"name": f"twin{n}", "observations": ["same"]} for n in range(5))
    (summary,) = bench.step()
    assert (summary.embedded, summary.inputs) == (5, 1)
    assert {tuple(bench.vector(f"twin{n}") or ()) for n in range(5)} == {tuple(bench.vector("twin0") or ())}


def test_a_fresh_entity_costs_nothing(bench: Bench) -> None:
    bench.create("a")
    bench.step()
    text = bench.text("a")
    bench.queue.enqueue(JobRequest("a", bench.embedder.model, text.version, force=True))
    (summary,) = bench.step()
    assert (summary.already_current, summary.requests) == (1, 0)
    assert bench.job("a")["outcome"] == "already_current"
    assert len(bench.provider.journal) == 1


def test_of_two_pending_versions_only_the_newest_is_paid_for(bench: Bench) -> None:
    bench.create("a", text="old")
    bench.graph.update_entity("a", {"observations": ["new"]})
    assert bench.queue.status().pending == 2
    (summary,) = bench.step()
    assert (summary.embedded, summary.superseded, summary.inputs) == (1, 1, 1)
    assert bench.text("a").fresh
    assert [job["outcome"] for job in bench.queue.jobs(limit=10)].count("superseded") == 1


@pytest.mark.parametrize("embedded_between", [True, False])
def test_a_text_that_comes_back_gets_its_vector_again(bench: Bench, embedded_between: bool) -> None:
    """A -> B -> A: the completed (or superseded) job of A runs again."""
    bench.create("a", text="A")
    bench.step()
    bench.graph.update_entity("a", {"observations": ["B"]})
    if embedded_between:
        bench.step()
    bench.graph.update_entity("a", {"observations": ["A"]})
    while bench.queue.status().unfinished:
        bench.step()
    assert bench.text("a").fresh
    assert bench.vector("a") == pytest.approx(vector_for(bench.text("a").text, 256), abs=1e-6)


def test_a_job_of_another_model_is_replaced_by_one_of_ours(bench: Bench) -> None:
    bench.graph.database.write("CREATE (:Entity {name: 'a', observations: ['x']})")
    bench.queue.enqueue(JobRequest("a", "some-other-model", bench.text("a").version))
    (summary,) = bench.step()
    assert (summary.superseded, summary.requests) == (1, 0)
    (summary,) = bench.step()
    assert summary.embedded == 1
    assert bench.text("a").fresh


def test_a_deleted_entity_is_no_error(bench: Bench) -> None:
    bench.create("gone", "soft")
    bench.graph.delete_entity("gone")
    bench.graph.delete_entity("soft", soft=True)
    (summary,) = bench.step()
    assert (summary.entity_deleted, summary.requests) == (2, 0)


def run_while_asking(bench: Bench, act: Callable[[], Any]) -> Summary:
    """Runs one batch, and `act` while the provider holds its answer back."""
    summaries: list[Summary] = []
    worker = threading.Thread(target=lambda: summaries.extend(bench.step()))
    with bench.provider.held():
        worker.start()
        bench.provider.wait_for(waiting=1)
        act()
    worker.join(20)
    assert len(summaries) == 1
    return summaries[0]


def test_a_text_edited_during_the_call_is_not_given_the_old_vector(bench: Bench) -> None:
    """D4. The old vector serves until the new text has its own.

    Guard: the comparison of the source values under the lock in `graph/write_vectors`. With it removed (`WHERE
    n.validTo IS NULL` alone) this test fails: the vector of "one" stands on the entity whose text is "two".
    """
    bench.create("a", text="zero")
    bench.step()
    before = bench.vector("a")
    bench.graph.update_entity("a", {"observations": ["one"]})
    summary = run_while_asking(bench, lambda: bench.graph.update_entity("a", {"observations": ["two"]}))
    assert (summary.embedded, summary.superseded) == (0, 1)
    assert bench.vector("a") == before
    bench.step()
    assert bench.vector("a") == pytest.approx(vector_for(bench.text("a").text, 256), abs=1e-6)


def test_a_text_edited_and_put_back_during_the_call_ends_fresh(bench: Bench) -> None:
    """A -> B -> A while A is being embedded: the vector of A is right, whatever job ends how."""
    bench.create("a", text="A")

    def there_and_back() -> None:
        bench.graph.update_entity("a", {"observations": ["B"]})
        bench.graph.update_entity("a", {"observations": ["A"]})

    run_while_asking(bench, there_and_back)
    while bench.queue.status().unfinished:
        bench.step()
    assert bench.text("a").fresh


def test_an_entity_deleted_during_the_call_is_not_created_again(bench: Bench) -> None:
    bench.create("a")
    summary = run_while_asking(bench, lambda: bench.graph.delete_entity("a"))
    assert (summary.embedded, summary.entity_deleted) == (0, 1)
    assert bench.graph.coverage().entities == 0


def test_deleted_and_created_again_with_the_same_text(bench: Bench) -> None:
    """Within the retention its completed job still stands: it runs again."""
    bench.create("a")
    bench.step()
    bench.graph.delete_entity("a")
    bench.create("a")
    bench.step()
    assert bench.text("a").fresh


def test_an_empty_text_is_never_sent(bench: Bench) -> None:
    bench.graph.recipe = bench.graph.recipe.of_properties(["description"])
    bench.graph.create_entities([{"name": "a", "description": "  "}])
    (summary,) = bench.step()
    assert (summary.failed, summary.requests) == (1, 0)
    job = bench.job("a")
    assert (job["status"], job["failure_reason"]) == ("failed", "permanent_error")
    assert "empty" in job["error"]


def test_a_text_that_was_emptied_takes_its_vector_along(bench: Bench) -> None:
    """Guard: `remove_vectors`. Without it the entity is found by words that somebody removed."""
    bench.graph.recipe = bench.graph.recipe.of_properties(["description"])
    bench.graph.create_entities([{"name": name, "description": f"about {name}"} for name in ("a", "b")])
    bench.step()
    bench.graph.create_entities([{"name": "a", "description": ""}])
    (summary,) = bench.step()
    assert (summary.failed, summary.requests) == (1, 0)
    assert [job["entity_uid"] for job in bench.queue.jobs(status="failed")] == ["a"]
    (row,) = bench.graph.database.read(
        "MATCH (n:Entity {name: 'a'}) RETURN labels(n) AS labels, keys(n) AS keys"
    )
    assert row["labels"] == ["Entity"]
    assert not [name for name in row["keys"] if name.startswith("embed")]
    assert bench.vector("b")


def test_a_text_that_is_written_while_its_vector_is_removed_is_embedded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: the fence of graph/remove_vectors. Without it the job fails, and the new text waits for a sweep."""
    bench.graph.recipe = bench.graph.recipe.of_properties(["description"])
    bench.graph.create_entities([{"name": "a", "description": " "}])
    remove = type(bench.graph).remove_vectors

    def late(graph: Any, texts: Any) -> Any:
        graph.database.write("MATCH (n:Entity {name: 'a'}) SET n.description = 'words'")
        return remove(graph, texts)

    monkeypatch.setattr(type(bench.graph), "remove_vectors", late)
    (summary,) = bench.step()
    assert (summary.superseded, summary.failed) == (1, 0)
    (summary,) = bench.step()
    assert summary.embedded == 1
    assert bench.provider.inputs == ["words"]


def test_one_poisonous_text_hurts_no_other(bench: Bench) -> None:
    """C6: found within 2 log2(100) + 1 further requests."""
    bench.create(*(f"n{n}" for n in range(99)), "poison")
    bench.provider.reply_to_text("Name: poison", error(400, BAD))
    (summary,) = bench.step()
    assert (summary.embedded, summary.failed) == (99, 1)
    assert summary.requests <= 1 + 15
    job = bench.job("poison")
    assert (job["failure_reason"], job["error_status"], job["attempts"]) == ("permanent_error", 400, 1)


def test_when_every_text_is_refused_nobody_is_to_blame(bench: Bench) -> None:
    bench.create(*(f"n{n}" for n in range(100)))
    bench.provider.reply_always(error(400, BAD))
    (summary,) = bench.step()
    assert (summary.failed, summary.retried, summary.released) == (0, 0, 100)
    assert summary.requests <= 1 + 15
    assert bench.queue.status().pause_reason
    bench.provider.reply_always(None)
    bench.queue.resume()
    (summary,) = bench.step()
    assert summary.embedded == 100
    assert {job["attempts"] for job in bench.queue.jobs(limit=200)} == {0}


def test_an_outage_counts_attempts_and_the_third_is_final(bench: Bench) -> None:
    """C1: as many requests as attempts, none hidden."""
    bench.create("a")
    bench.provider.reply_always(error(500))
    outcomes = [bench.step()[0] for _ in range(3)]
    assert [(s.retried, s.failed) for s in outcomes] == [(1, 0), (1, 0), (0, 1)]
    job = bench.job("a")
    assert (job["status"], job["failure_reason"], job["attempts"]) == ("failed", "max_retries_exceeded", 3)
    assert (job["error_category"], job["error_status"]) == ("TRANSIENT", 500)
    assert len(bench.provider.journal) == 3


@pytest.mark.parametrize(
    ("reply", "pause_of"),
    [
        (error(429, RATE, headers={"Retry-After": "7"}), (5, 8)),
        (error(429, RATE), (0, 1.1)),
        (error(429, QUOTA), (50, 61)),
        (error(402, QUOTA), (50, 61)),
    ],
)
def test_a_limit_is_no_verdict(bench: Bench, reply: Reply, pause_of: tuple[float, float]) -> None:
    """C3, C4: released, nothing charged, and everybody rests for a bounded time."""
    bench.create("a", "b")
    bench.provider.reply_next(reply)
    (summary,) = bench.step()
    assert (summary.released, summary.retried, summary.failed) == (2, 0, 0)
    assert bench.queue.lease("test", batches=1).reason == "paused"
    state = bench.queue.control.state()
    assert state.paused_until is not None
    assert pause_of[0] < (state.paused_until - state.now) / 1000 < pause_of[1]
    bench.queue.resume()
    assert bench.step()[0].embedded == 2
    assert bench.job("a")["attempts"] == 0


@pytest.mark.parametrize("status", [401, 429])
def test_late_news_of_a_lost_lease_restrain_nobody(bench: Bench, status: int) -> None:
    """Taken back by hand, and repaired, while the request was on its way: its refusal is old news.

    Guards: `_report` asks for the lease before `_restrain`, and `note_failure` before it stores anything. Without
    the first the queue is halted, without the second it pauses.
    """
    bench.create("a")
    bench.provider.reply_always(error(status))
    run_while_asking(
        bench, lambda: bench.queue.release_jobs([job["id"] for job in bench.queue.jobs(limit=10)])
    )
    state = bench.queue.status()
    assert (state.pending, state.halted, state.pause_reason) == (1, False, None)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_wrong_configuration_halts_and_charges_nobody(bench: Bench, status: int) -> None:
    """C5: what was leased before the halt gives itself back, and `resume` goes on."""
    bench.create("a")
    waiting = bench.queue.lease("test", batches=1).leases
    bench.create("b")
    bench.provider.reply_always(error(status, BAD))
    (summary,) = bench.step()
    assert (summary.released, summary.requests) == (1, 2), "one answer is no proof: the sibling confirms it"
    assert bench.queue.status().halted
    assert bench.queue.health().state == "CRITICAL"
    refused = bench.pipeline.run(waiting[0].token, waiting[0].job_ids)
    assert (refused.refused, refused.released) == ("halted", 1)
    assert bench.job("b")["error_category"] == "CRITICAL"
    bench.provider.reply_always(None)
    bench.queue.resume()
    assert sum(s.embedded for s in bench.step()) == 2
    assert {job["attempts"] for job in bench.queue.jobs()} == {0}


def test_a_message_delivered_five_times_is_one_request(bench: Bench) -> None:
    """B6, without the broker. Guard: `l.started_at IS NULL` in `jobs/start`; without it, five requests are seen."""
    bench.create("a")
    (lease,) = bench.queue.lease("test", batches=1).leases
    summaries = [bench.pipeline.run(lease.token, lease.job_ids) for _ in range(5)]
    assert [s.refused for s in summaries] == [None, "lost", "lost", "lost", "lost"]
    assert len(bench.provider.journal) == 1


def test_an_interruption_gives_the_jobs_back(bench: Bench) -> None:
    """SIGTERM's grace is over in the middle of a call: `SystemExit` comes out, the jobs are pending again."""
    bench.create("a")
    (lease,) = bench.queue.lease("test", batches=1).leases

    def stopping(_texts: object) -> None:
        raise SystemExit(0)

    bench.pipeline._embedder = StubEmbedder(bench.embedder, stopping)  # type: ignore[assignment]
    with pytest.raises(SystemExit):
        bench.pipeline.run(lease.token, lease.job_ids)
    job = bench.job("a")
    assert (job["status"], job["attempts"]) == ("pending", 0)


@pytest.mark.parametrize("answer", ["NaN", "zero vector", "short", "null vector"])
def test_no_unusable_vector_is_stored(bench: Bench, answer: str) -> None:
    """C8: the attempt counts, the entity stays without a vector."""
    bench.create("a", "b")
    bench.provider.reply_next(mangled(answer))
    (summary,) = bench.step()
    assert (summary.embedded, summary.retried) == (0, 2)
    assert bench.vector("a") is None
    assert bench.step()[0].embedded == 2


def test_vectors_that_cannot_be_told_apart_are_asked_for_again(bench: Bench) -> None:
    """C8: no text explains such an answer, and the sibling is answered well: a moment, within the same batch."""
    bench.create("a", "b")
    bench.provider.reply_next(mangled("repeated index"))
    (summary,) = bench.step()
    assert (summary.embedded, summary.requests) == (2, 4)
    for name in "ab":
        assert bench.vector(name) == pytest.approx(vector_for(bench.text(name).text, 256), abs=1e-6)


def test_health_follows_the_verdicts(bench: Bench) -> None:
    """E1: five failures in a row degrade, a success heals."""
    bench.create("a", "b", "c", "d", "e")
    bench.provider.reply_next(error(503))
    bench.step()
    assert bench.queue.health().state == "DEGRADED"
    bench.step()
    assert bench.queue.health().state == "HEALTHY"


def test_blank_and_too_long_texts_say_nothing_about_the_provider(make_bench: MakeBench) -> None:
    """C14: their jobs fail unasked. Guard: `UNASKED` in `SettleTransaction._marks`; without it, six failures in a
    row."""
    bench = make_bench(embed_input_tokens=100, embed_long_texts="fail")
    bench.graph.recipe = bench.graph.recipe.of_properties(["text"])
    texts = [" ", " ", " ", "word " * 3000, "word " * 4000, "word " * 5000]
    bench.graph.create_entities({"name": f"e{n}", "text": text} for n, text in enumerate(texts))
    assert bench.step()[0].failed == 6
    assert bench.queue.retry_failed() == 6
    assert bench.step()[0].failed == 6
    health = bench.queue.health()
    assert (health.state, health.verdicts, health.consecutive_failures) == ("HEALTHY", 0, 0)
    assert bench.provider.journal == []
