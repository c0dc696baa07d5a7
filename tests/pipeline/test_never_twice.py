"""The same text is not paid for twice: not in a batch, not by another entity's job, not after a fault (C10, C11)."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from neo4j_queue.database import Address, Database
from neo4j_queue.embedders.vector_cache import MEGABYTE, VectorCache
from neo4j_queue.graph.query_embedder import QueryEmbedder
from neo4j_queue.jobs import JobRequest
from neo4j_queue.local_services import free_ports
from neo4j_queue.mock_provider import error, vector_for
from neo4j_queue.pipeline import Pipeline, graph_calls
from neo4j_queue.pipeline.pipeline import Summary
from neo4j_queue.queue.budget import RateBudget
from tests.pipeline.conftest import Bench, MakeBench
from tests.waiting import wait_until

WAIT_S = 20.0


def share_texts(bench: Bench) -> None:
    """Entities of one description have one text: the name is not part of it."""
    bench.graph.recipe = bench.graph.recipe.of_properties(["description"])


def describe(bench: Bench, **descriptions: str) -> None:
    """Entities with these descriptions, queued."""
    bench.graph.create_entities({"name": n, "description": text} for n, text in descriptions.items())


def with_cache(bench: Bench, cache: VectorCache, **more: Any) -> Pipeline:
    """Another pipeline on the same bench: that of another thread, or of a worker with a cache."""
    options = {"worker": "test", "sleep": lambda _: None, **more}
    return Pipeline(bench.queue, bench.graph, bench.embedder, cache=cache, **options)


def savings(summary: Summary) -> tuple[int, int, int, int, int]:
    """Inputs sent; saved in the batch, by the cache, by another entity, by the entity itself."""
    return (
        summary.inputs,
        summary.saved_in_batch,
        summary.saved_cached,
        summary.saved_other_entity,
        summary.saved_current,
    )


def newest_lease(bench: Bench) -> dict[str, Any]:
    """The lease node of the last batch."""
    (row,) = bench.queue.database.read(
        "MATCH (l:EmbedLease) RETURN l {.*} AS lease ORDER BY l.leased_at DESC, l.token DESC LIMIT 1"
    )
    return dict(row["lease"])


@pytest.fixture
def twins(bench: Bench) -> Bench:
    """A bench whose entities share texts, with the vector of "one" on an entity."""
    share_texts(bench)
    describe(bench, first="one")
    bench.step()
    assert len(bench.provider.journal) == 1
    return bench


def test_an_entity_of_a_known_text_gets_the_vector_that_is_there(twins: Bench) -> None:
    """Guard: the copies in `VectorSources.get`. Without them a second request is seen."""
    describe(twins, second="one", third="one", other="two")
    (summary,) = twins.step()
    assert (summary.embedded, summary.requests) == (3, 1)
    assert savings(summary) == (1, 1, 0, 1, 0)
    assert twins.provider.inputs == ["one", "two"]
    for name in ("first", "second", "third"):
        assert twins.vector(name) == pytest.approx(vector_for("one", 256), abs=1e-6)
        assert twins.text(name).fresh


def test_a_copied_vector_takes_no_request_of_the_budget(twins: Bench) -> None:
    """C11. The lease had reserved one: what was never sent is given back."""
    describe(twins, second="one")
    (summary,) = twins.step()
    assert (summary.embedded, summary.requests) == (1, 0)
    lease = newest_lease(twins)
    assert (lease["requests"], lease["inputs"], lease["saved"], lease["outcome"]) == (0, 0, 1, "completed")
    assert "requested_at" not in lease
    booking = RateBudget(twins.queue.limits, 1_000, 30_000, twins.clock())
    facts = twins.queue.database.transaction(booking.facts)
    assert facts.spent_requests == 1


def test_a_cached_vector_takes_no_request_of_the_budget(make_bench: MakeBench) -> None:
    """C11, with a budget of one request: four further batches go out of the cache."""
    bench = make_bench(embedding_rate_limit_tokens=1)
    share_texts(bench)
    cache = VectorCache(MEGABYTE)
    bench.pipeline = with_cache(bench, cache)
    describe(bench, first="one")
    bench.step()
    bench.skip(61)
    for n in range(4):
        bench.graph.delete_entity("first")
        describe(bench, first="one")
        (summary,) = bench.step()
        assert (summary.embedded, summary.requests, savings(summary)) == (1, 0, (0, 0, 1, 0, 0)), n
    assert len(bench.provider.journal) == 1


def test_the_vector_of_another_model_or_width_is_not_copied(twins: Bench) -> None:
    """Guards: the model in graph/read_wanted and graph/copies, the width in `EntityVectors.copies`."""
    twins.graph.database.write("MATCH (n:Entity {name: 'first'}) SET n.embedding_model = 'some other'")
    describe(twins, second="one")
    assert savings(twins.step()[0]) == (1, 0, 0, 0, 0)
    twins.graph.database.write(
        "MATCH (n:Entity {name: 'first'}) SET n.embedding = [i IN range(1, 256) | 1.0]"
    )
    describe(twins, right="one")
    assert savings(twins.step()[0]) == (0, 0, 0, 1, 0)
    assert twins.vector("right") == pytest.approx(vector_for("one", 256), abs=1e-6)
    twins.graph.database.write("MATCH (n:Entity) SET n.embedding = [1.0, 2.0]")
    describe(twins, third="one")
    assert savings(twins.step()[0]) == (1, 0, 0, 0, 0)
    assert twins.vector("third") == pytest.approx(vector_for("one", 256), abs=1e-6)


def test_a_version_that_only_begins_alike_is_not_copied(twins: Bench) -> None:
    """Guard: graph/copies compares the whole hash. With STARTS WITH there, the wrong vector is stored."""
    describe(twins, second="two")
    digest = twins.text("second").content_hash
    near = digest[:16] + "0" * 48
    twins.graph.database.write("MATCH (n:Entity {name: 'first'}) SET n.embedding_hash = $near", near=near)
    assert savings(twins.step()[0]) == (1, 0, 0, 0, 0)
    assert twins.vector("second") == pytest.approx(vector_for("two", 256), abs=1e-6)


def test_a_lost_vector_is_asked_for_again(twins: Bench) -> None:
    """The hash is still there, the vector is not: nothing to copy."""
    twins.graph.database.write("MATCH (n:Entity) REMOVE n.embedding")
    describe(twins, second="one")
    assert savings(twins.step()[0]) == (1, 0, 0, 0, 0)


def test_a_copied_vector_says_nothing_about_the_provider(twins: Bench) -> None:
    """Guard: `copied` in `SettleTransaction._marks`. Without it the failures in a row are forgotten."""
    describe(twins, a="a", b="b", c="c", d="d", e="e")
    # The batch and the sibling: an outage.
    twins.provider.reply_next(error(503), error(503))
    twins.step()
    twins.queue.pause(60, "so that only what comes next is seen")
    twins.queue.resume()
    before = twins.queue.health()
    assert before.consecutive_failures == 5
    twins.provider.reply_always(error(503))
    describe(twins, second="one")
    (summary,) = [s for s in twins.step() if s.embedded]
    assert summary.embedded == 1
    assert twins.queue.health().consecutive_failures > 5


def test_what_is_current_is_counted(twins: Bench) -> None:
    request = JobRequest("first", twins.embedder.model, twins.text("first").version, force=True)
    twins.queue.enqueue(request)
    assert savings(twins.step()[0]) == (0, 0, 0, 0, 1)
    assert (newest_lease(twins)["inputs"], newest_lease(twins)["saved"]) == (0, 1)


def test_two_batches_never_have_one_text_in_hand(make_bench: MakeBench) -> None:
    """Twins spread over many batches, all leased at once as far as they can be, and run side by side."""
    bench = make_bench(embed_batch_size=3)
    share_texts(bench)
    describe(bench, **{f"e{n:03}": f"text {n % 20}" for n in range(100)})
    with ThreadPoolExecutor(8) as pool:
        while bench.queue.status().unfinished:
            leases = bench.queue.lease("test", batches=8).leases
            list(pool.map(lambda lease: bench.pipeline.run(lease.token, lease.job_ids), leases))
    assert len(bench.provider.inputs) == len(set(bench.provider.inputs)) == 20
    assert bench.graph.coverage().fresh == 100


# -- faults ------------------------------------------------------------------------------------------------


def run_with_the_graph_away(bench: Bench, *, failures: int, cache: VectorCache) -> Summary:
    """One batch; the graph goes while the provider answers, and comes back after so many refused writes."""
    real = bench.graph.database
    summaries: list[Summary] = []
    rests: list[float] = []

    def come_back(rest_s: float) -> None:
        rests.append(rest_s)
        if len(rests) >= failures:
            bench.graph.database = real

    bench.pipeline = with_cache(bench, cache, sleep=come_back)
    nobody = Address(f"bolt://127.0.0.1:{free_ports(1)[0]}", "neo4j")
    worker = threading.Thread(target=lambda: summaries.extend(bench.step()))
    with Database(nobody, retry_time_s=0) as away:
        with bench.provider.held():
            worker.start()
            bench.provider.wait_for(waiting=1)
            bench.graph.database = away
        worker.join(60)
        bench.graph.database = real
    assert len(rests) == min(failures, len(graph_calls.WRITE_RETRIES_S))
    (summary,) = summaries
    return summary


def test_a_graph_that_refuses_three_writes_costs_one_request(bench: Bench) -> None:
    """C10. Guard: `_write_patiently` keeps the vectors in hand. With `WRITE_RETRIES_S = ()` the jobs are released,
    and the second batch sends the request again."""
    bench.create("a", "b")
    summary = run_with_the_graph_away(bench, failures=3, cache=VectorCache(0))
    assert (summary.embedded, summary.requests, summary.released) == (2, 1, 0)
    assert len(bench.provider.journal) == 1
    assert bench.text("a").fresh


def test_vectors_that_could_not_be_written_are_kept_for_the_next_attempt(bench: Bench) -> None:
    """The graph is away for longer than anyone waits. Guard: the cache; with `VectorCache(0)` two requests are seen."""
    bench.create("a", "b")
    cache = VectorCache(MEGABYTE)
    summary = run_with_the_graph_away(bench, failures=99, cache=cache)
    assert (summary.embedded, summary.requests, summary.released) == (0, 1, 2)
    bench.queue.resume()
    (summary,) = bench.step()
    assert (summary.embedded, summary.requests, summary.saved_cached) == (2, 0, 2)
    assert len(bench.provider.journal) == 1


# -- threads of one process --------------------------------------------------------------------------------


def at_once(bench: Bench, acts: list[Callable[[], Any]], *, waiting: int = 1) -> list[Any]:
    """Runs all of them; the provider answers when `waiting` requests stand at its gate and nobody does anything."""
    with ThreadPoolExecutor(len(acts)) as pool, bench.provider.held():
        futures = [pool.submit(acts[0])]
        bench.provider.wait_for(waiting=1)
        futures += [pool.submit(act) for act in acts[1:]]
        bench.provider.wait_for(waiting=waiting)
        bench.provider.open_gate()
        return [future.result(WAIT_S) for future in futures]


def test_two_searches_for_the_same_ask_once(bench: Bench) -> None:
    """And a third one later finds it. Guard: the flight in `QueryEmbedder`."""
    embed = QueryEmbedder(bench.settings)
    first, second = at_once(bench, [lambda: embed("what?")] * 2)
    assert first == second == embed("what?") == pytest.approx(vector_for("what?", 256), abs=1e-6)
    assert bench.provider.inputs == ["what?"]


def test_a_search_that_is_answered_from_memory_is_not_booked(bench: Bench) -> None:
    """C11."""
    booked: list[int] = []

    def book(tokens: int) -> bool:
        booked.append(tokens)
        return True

    embed = QueryEmbedder(bench.settings, book)
    embed("what?")
    embed("what?")
    embed("why?")
    assert (len(booked), bench.provider.inputs) == (2, ["what?", "why?"])


def test_a_search_without_a_cache_asks_each_time(make_bench: MakeBench) -> None:
    bench = make_bench(embed_cache_mb=0)
    embed = QueryEmbedder(bench.settings)
    embed("what?")
    embed("what?")
    assert bench.provider.inputs == ["what?", "what?"]


def test_a_search_whose_twin_fails_asks_by_itself(bench: Bench) -> None:
    embed = QueryEmbedder(bench.settings)
    bench.provider.reply_next(error(500))

    def attempt() -> object:
        try:
            return embed("what?")
        except Exception as failure:  # noqa: BLE001 - which one it is does not matter here
            return failure

    first, second = at_once(bench, [attempt, attempt])
    assert isinstance(first, Exception)
    assert second == pytest.approx(vector_for("what?", 256), abs=1e-6)
    assert bench.provider.inputs == ["what?", "what?"]


def test_a_batch_waits_for_the_thread_that_asks_for_its_text(bench: Bench) -> None:
    """An entity whose text is another thread's at this moment: the rest of its batch is asked for meanwhile."""
    share_texts(bench)
    describe(bench, first="one", other="two")
    cache = VectorCache(MEGABYTE)
    bench.pipeline = with_cache(bench, cache)
    key = (bench.embedder.model, bench.embedder.dimensions, bench.text("first").content_hash)
    with ThreadPoolExecutor(1) as pool, cache.flight([key]) as flight:
        future = pool.submit(bench.step)
        bench.provider.wait_for(finished=1)
        assert not future.done()
        flight.land({key: vector_for("one", 256)})
        (summary,) = future.result(WAIT_S)
    assert bench.provider.inputs == ["two"]
    assert (summary.embedded, savings(summary)) == (2, (1, 0, 1, 0, 0))


@pytest.mark.parametrize("budget", ["unlimited", 1])
def test_a_batch_whose_twin_fails_asks_by_itself_if_the_budget_allows(
    make_bench: MakeBench, budget: str | int
) -> None:
    """It may have used its request already: the second one is booked, or the job goes back."""
    bench = make_bench(embedding_rate_limit_tokens=budget)
    share_texts(bench)
    describe(bench, first="one", other="two")
    cache = VectorCache(MEGABYTE)
    bench.pipeline = with_cache(bench, cache)
    key = (bench.embedder.model, bench.embedder.dimensions, bench.text("first").content_hash)
    with ThreadPoolExecutor(1) as pool:
        with cache.flight([key]):
            future = pool.submit(bench.step)
            bench.provider.wait_for(finished=1)
        (summary,) = future.result(WAIT_S)
    if budget == 1:
        assert (summary.embedded, summary.released, summary.requests) == (1, 1, 1)
    else:
        assert (summary.embedded, summary.released, summary.requests) == (2, 0, 2)
    wait_until(lambda: not cache._asked, within_s=WAIT_S, what="nobody is waited for")


# -- what is told --------------------------------------------------------------------------------------------


def test_the_log_says_what_was_sent_and_saved_and_what_was_a_hit(
    twins: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    describe(twins, second="one", third="three")
    capsys.readouterr()
    twins.step()
    lines = capsys.readouterr().out.splitlines()
    (done,) = [line for line in lines if "embedding_batch_done" in line]
    for field in (
        "inputs=1",
        "saved_in_batch=0",
        "saved_other_entity=1",
        "requests=1",
        "embedded=2",
        "jobs=2",
    ):
        assert field in done, done
    completed = sorted(
        line.split("cache=")[1].split()[0] for line in lines if "embedding_job_completed" in line
    )
    assert completed == ["hit", "miss"]
