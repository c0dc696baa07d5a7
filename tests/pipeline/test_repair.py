"""The search for entities without a vector and without a job, among many that have one."""

import itertools
from functools import partial

import pytest
from structlog.testing import capture_logs

from neo4j_queue.mock_provider import error
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
        # Three pages of the outbox, the place of the last search, and the page behind it.
        assert counting.calls == 5
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
    """Another program wrote it over; model and hash still say that it is the text's.

    Guard: `distrust_broken`. Without it a vector of the right length stays; another length is seen without it.
    """
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


def test_one_key_that_cannot_have_a_job_fails_nobody_else(bench: Bench) -> None:
    """The answer says which, and why. Guard: `enqueue_apart`; without it the call fails, and nothing is queued."""
    names = ["a", "k" * 8_140, "z"]
    bench.graph.database.write("UNWIND $names AS name CREATE (:Entity {name: name})", names=names)
    answer = force_generate_embedding(bench.graph, bench.queue)
    counts = {name: answer[name] for name in ("discovered", "queued", "newly_scheduled", "failed")}
    assert counts == {"discovered": 3, "queued": 2, "newly_scheduled": 2, "failed": 1}
    assert [job["outcome"] for job in answer["jobs"]] == ["created", "created", "failed"]
    (failed,) = [job for job in answer["jobs"] if "error" in job]
    assert (failed["entity"], failed["job_id"]) == (names[1], None)
    assert "8,140 bytes" in failed["error"]


def test_a_search_that_ran_out_of_time_goes_on_where_it_stood(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: `Cursor`. Without it each call begins at the first key, and those behind many that failed are never
    reached."""
    bench.graph.database.write("UNWIND range(1000, 7999) AS at CREATE (:Entity {name: 'e' + at})")
    texts = bench.graph.get_entities_without_embeddings(7_000)
    bench.queue.enqueue([text.request(bench.graph.model) for text in texts[:6_000]])
    seconds = itertools.count(step=0.4 * repair.SEARCH_S)
    impatient = partial(discover, clock=lambda: next(seconds))
    monkeypatch.setattr(repair, "discover", impatient)
    found = [force_generate_embedding(bench.graph, bench.queue)["discovered"] for _ in range(4)]
    assert found[0] == 0, "the first call saw entities that are taken care of, and no others"
    assert 10 in found
    assert discover(bench.graph, bench.queue, 5) == discover(bench.graph, bench.queue, 5), (
        "a look alone moves nothing"
    )


def test_a_waiting_job_is_due_at_once_for_the_person_who_asks(bench: Bench) -> None:
    """And the answer says what was done. Guard: `due_now`; without it the repair changes nothing but the priority."""
    bench.create("one")
    bench.provider.reply_always(error(500))
    bench.step()
    assert bench.job("one")["status"] == "pending"
    bench.queue.database.write(
        "MATCH (j:EmbedJob) SET j.available_at = $later", later=bench.clock.now + 50_000
    )
    answer = force_generate_embedding(bench.graph, bench.queue, "one")
    assert (answer["outcome"], answer["did"]) == ("requeued", "was waiting for another try, is due now")
    assert bench.job("one")["available_at"] <= bench.clock.now
    answer = force_generate_embedding(bench.graph, bench.queue, "one")
    assert (answer["outcome"], answer["did"]) == ("duplicate", "was queued and due already, goes first now")
