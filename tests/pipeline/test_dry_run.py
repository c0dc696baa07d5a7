"""A dry run against a real run of the same entities: what was foretold is what the provider then sees."""

from dataclasses import replace
from typing import Any

import pytest

from neo4j_queue.database import Database
from neo4j_queue.jobs import JobRequest
from neo4j_queue.queue import usage
from neo4j_queue.queue.batching import Bounds
from neo4j_queue.queue.provider_limits import ProviderReport
from neo4j_queue.reconcile.estimate import Estimate, estimate
from neo4j_queue.reconcile.repair import force_generate_embedding, selected
from neo4j_queue.reconcile.sweep import Scope, pages, sweep
from tests.pipeline.conftest import Bench

# Texts of very different lengths, as a program without this library writes them.
FOREIGN = """
UNWIND range(1, $count) AS n
CREATE (:Entity {name: 'foreign ' + n, entityType: 'thing',
  observations: [i IN range(1, 1 + n % 17) | 'observation ' + i + ' of a thing that is Ümläut-rich']})
"""
# Jobs of one millisecond come in the order of their nodes, for which the server uses gaps as it likes, and the last
# request more or less is a matter of the order. The dry run takes entities in the order of their keys; so must the run.
IN_ORDER = """
MATCH (j:EmbedJob) WITH j ORDER BY j.entity_uid
WITH collect(j) AS jobs
UNWIND range(0, size(jobs) - 1) AS n
WITH jobs[n] AS job, n SET job.available_at = job.available_at + n
"""
SNAPSHOT = "MATCH (n) RETURN labels(n) AS labels, properties(n) AS properties, elementId(n) AS id ORDER BY id"


def foretold(bench: Bench, scope: Scope = Scope.ALL) -> Estimate:
    return estimate(
        pages(bench.graph, scope), bench.queue, bench.settings, bench.graph.model, leave_failed=True
    )


def everything(*databases: Database) -> list[list[dict[str, Any]]]:
    return [[row.data() for row in each.read(SNAPSHOT)] for each in databases]


def drain(bench: Bench) -> None:
    while bench.step():
        pass


@pytest.mark.parametrize("factor", [1.0, 1.4])
def test_requests_inputs_and_tokens_are_those_of_the_run(bench: Bench, factor: float) -> None:
    """Guard: the planner carries the request that is being filled over to the next page."""
    # Requests that end by count and by tokens, and never with a page.
    bench.queue.bounds = Bounds(inputs=70, tokens=4_000)
    bench.graph.database.write(FOREIGN, count=1_350)
    bench.queue.control.provider_reported(ProviderReport(token_factor=factor))
    before = everything(bench.graph.database, bench.queue.database)

    found = foretold(bench)

    assert everything(bench.graph.database, bench.queue.database) == before
    assert bench.provider.journal == []
    assert (found.seen, found.to_embed, found.fresh) == (1_350, 1_350, 0)
    assert found.model_tokens == pytest.approx(found.est_tokens * factor, abs=1)

    done = sweep(bench.graph, bench.queue, Scope.ALL)
    bench.queue.database.write(IN_ORDER)
    bench.skip(2)
    drain(bench)

    assert done.queued == found.to_embed
    assert len(bench.provider.journal) == found.requests
    assert len(bench.provider.inputs) == found.inputs
    # The server counts a quarter of a token per byte, as the estimate does.
    assert sum(request.tokens for request in bench.provider.journal) == found.est_tokens
    assert sum(map(len, bench.provider.inputs)) == found.characters

    used = usage.read(bench.queue.database, 1.0, now=bench.clock())
    assert (used.requests, used.jobs, used.batches) == (found.requests, 1_350, found.requests)
    assert (used.model_tokens, used.searches, used.unconfirmed) == (found.est_tokens, 0, 0)
    bench.skip(7_200)
    assert usage.read(bench.queue.database, 1.0, now=bench.clock()).requests == 0


def test_a_text_that_entities_share_counts_once(bench: Bench) -> None:
    """Guard: the set of texts in `_Counting`; without it a text counts in each request that one of its jobs is in."""
    bench.graph.recipe = bench.graph.recipe.of_properties(["description"])
    bench.queue.bounds = Bounds(inputs=7)
    bench.graph.database.write(
        "UNWIND range(1, 60) AS n CREATE (:Entity {name: 'e' + n, description: 'text ' + (n % 20)})"
    )
    found = foretold(bench)
    assert (found.to_embed, found.inputs, found.requests) == (60, 20, 3)

    done = sweep(bench.graph, bench.queue, Scope.ALL)
    drain(bench)
    assert done.queued == found.to_embed
    assert sorted(bench.provider.inputs) == sorted({f"text {n}" for n in range(20)})
    assert sum(request.tokens for request in bench.provider.journal) == found.est_tokens
    assert sum(map(len, bench.provider.inputs)) == found.characters


def test_what_costs_nothing_is_told_apart(bench: Bench) -> None:
    bench.create("fresh 1", "fresh 2")
    drain(bench)
    bench.create("waiting")
    bench.graph.database.write(
        "UNWIND ['failed', 'left', 'new', 'gone'] AS name CREATE (:Entity {name: name})"
    )
    bench.graph.database.write("MATCH (n:Entity {name: 'gone'}) SET n.validTo = 1")
    text = bench.text("failed")
    bench.queue.enqueue(JobRequest("failed", bench.graph.model, text.version))
    bench.queue.database.write("MATCH (j:EmbedJob {entity_uid: 'failed'}) SET j.status = 'failed'")

    found = foretold(bench)

    assert (found.seen, found.fresh, found.queued_before, found.failed_before) == (6, 2, 1, 1)
    assert (found.blank, found.to_embed, found.requests) == (0, 2, 1)
    # A text of no words, two nodes that share key and text, and a text beyond the model's limit.
    no_words = replace(text, uid="no words", text=" ", content_hash="0" * 64)
    long = replace(text, uid="long", text="x" * 40_000, content_hash="1" * 64)
    odd = estimate(
        [[no_words, text, text, long]],
        bench.queue,
        bench.settings,
        bench.graph.model,
        leave_failed=False,
    )
    assert (odd.seen, odd.blank, odd.repeated, odd.to_embed, odd.truncated) == (4, 1, 1, 2, 1)
    assert odd.to_queue == 3
    assert odd.est_tokens == text.est_tokens + bench.embedder.profile.max_input_tokens
    refusing = bench.settings.model_copy(update={"embed_long_texts": "fail"})
    odd = estimate([[text, long]], bench.queue, refusing, bench.graph.model, leave_failed=False)
    assert (odd.too_long, odd.to_embed, odd.truncated, odd.est_tokens) == (1, 1, 0, text.est_tokens)
    named = estimate([[text]], bench.queue, bench.settings, bench.graph.model, leave_failed=False)
    assert named.to_embed == 1


@pytest.mark.parametrize("scope", [Scope.ALL, Scope.MISSING])
def test_jobs_that_will_fail_without_a_request_are_foretold(bench: Bench, scope: Scope) -> None:
    """Guard: blank texts are asked for like others. Without it a job was queued, and failed, that no dry run knew."""
    bench.graph.recipe = bench.graph.recipe.of_properties(["description"])
    bench.graph.database.write(
        "UNWIND range(1, 20) AS n CREATE (:Entity {name: 'e' + n, description: 'text ' + n})"
        "CREATE (:Entity {name: 'blank ' + n, description: [' ', '', null][n % 3]})"
    )
    found = foretold(bench, scope)
    assert (found.seen, found.to_embed, found.blank, found.to_queue) == (40, 20, 20, 40)

    assert sweep(bench.graph, bench.queue, scope).queued == found.to_queue
    again = foretold(bench, scope)
    assert (again.queued_before, again.blank, again.to_queue) == (40, 0, 0)

    drain(bench)
    status = bench.queue.status()
    assert (status.failed, status.completed) == (found.blank, found.to_embed)
    assert len(bench.provider.inputs) == found.inputs == 20
    after = foretold(bench, scope)
    assert (after.failed_before, after.blank, after.to_queue) == (20, 0, 0)
    # By name they are queued again, whatever became of them before.
    page = bench.graph.read_texts(["blank 1", "e1"])
    named = estimate([page], bench.queue, bench.settings, bench.graph.model, leave_failed=False)
    assert (named.fresh, named.blank, named.to_queue) == (1, 1, 1)


def test_the_selections_of_repair_are_those_that_it_queues(bench: Bench) -> None:
    bench.create("one", "two")
    drain(bench)
    bench.graph.database.write(FOREIGN, count=30)
    bench.graph.database.write("MATCH (n:Entity {name: 'one'}) SET n.observations = ['changed']")

    def cost(name: str | None, limit: int = 10) -> Estimate:
        texts = selected(bench.graph, bench.queue, name, limit)
        return estimate([texts], bench.queue, bench.settings, bench.graph.model, leave_failed=False)

    assert (cost("one").to_embed, cost("one").requests) == (1, 1)
    assert (cost("two").to_embed, cost("two").fresh, cost("two").requests) == (0, 1, 0)
    some = cost(None, 12)
    assert (some.seen, some.to_embed, some.requests) == (12, 12, 1)
    assert force_generate_embedding(bench.graph, bench.queue, None, 12)["newly_scheduled"] == 12
    assert cost(None, 100).to_embed == 18
    before = len(bench.provider.inputs)
    drain(bench)
    assert len(bench.provider.inputs) - before == some.inputs


def test_found_limits_count_however_old(bench: Bench) -> None:
    bench.graph.database.write(FOREIGN, count=1_050)
    assert (foretold(bench).minutes, foretold(bench).limited_by) == (None, None)
    bench.queue.control.provider_reported(ProviderReport(requests=4, tokens=None, token_factor=1.0))
    bench.skip(86_400)
    found = foretold(bench)
    assert found.requests == 11
    assert found.limited_by == "4 requests (as the provider says) per 60 s"
    assert found.minutes == pytest.approx(2 * 60.25 / 60, abs=0.01)


def test_usage_counts_searches_and_batches_that_ran_out(bench: Bench) -> None:
    """And reads an index, not all leases."""
    bench.queue.book_query(11)
    bench.create("one", "two", "three")
    (lease,) = bench.queue.lease("somebody", batches=1).leases
    bench.queue.start(lease.token, lease.job_ids)
    bench.skip(400)
    bench.queue.recover_stale()
    used = usage.read(bench.queue.database, 1.0, now=bench.clock())
    assert (used.requests, used.searches, used.unconfirmed, used.batches, used.jobs) == (2, 1, 1, 1, 3)

    from neo4j_queue.cypher import statement

    query = statement("jobs/usage").replace("CYPHER 5\n", "CYPHER 5 replan=force EXPLAIN\n", 1)
    with bench.queue.database.driver().session(database=bench.queue.database.address.database) as session:
        plan = session.run(query, window_ms=1, now=1).consume().plan  # type: ignore[arg-type, unused-ignore]
    operators = str(plan)
    assert "NodeIndexSeek" in operators
    assert "Scan" not in operators
