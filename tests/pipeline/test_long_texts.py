"""Texts in parts (`EMBED_LONG_TEXTS=average`): their vector, what they cost, and what becomes of a bad part."""

import math

import pytest

from neo4j_queue.embedders.cut import parts
from neo4j_queue.mock_provider import Limits, error, vector_for
from neo4j_queue.pipeline.pipeline import Summary
from neo4j_queue.pipeline.truncation import mean
from neo4j_queue.reconcile.estimate import estimate
from neo4j_queue.reconcile.sweep import Scope, pages
from tests.pipeline.conftest import Bench, MakeBench

BAD = {"error": {"message": "cannot embed this", "type": "invalid_request_error"}}


def story_of(name: str, sentences: int = 60) -> str:
    return " ".join(f"Sentence {n} of {name} says no more than this." for n in range(sentences))


def in_parts(text: str, limit: int = 100) -> list[str]:
    return parts(text, limit, 1_000)[0]


@pytest.fixture
def make_library(make_bench: MakeBench) -> MakeBench:
    """A chain whose model takes a hundred tokens and that averages what is longer."""

    def make(**overrides: object) -> Bench:
        bench = make_bench(**{"embed_input_tokens": 100, "embed_long_texts": "average", **overrides})
        bench.graph.recipe = bench.graph.recipe.of_properties(["text"])
        bench.provider.limits = Limits(max_input_tokens=100, max_inputs=bench.embedder.profile.max_inputs)
        return bench

    return make


def drain(bench: Bench, windows: int = 30) -> list[Summary]:
    found: list[Summary] = []
    for _ in range(windows):
        while step := bench.step():
            found += step
        if not bench.queue.status().unfinished:
            return found
        bench.skip(61)
    raise AssertionError(f"{bench.queue.status()}")


def test_the_vector_is_the_mean_of_the_parts_and_the_hash_that_of_the_whole(make_library: MakeBench) -> None:
    bench = make_library()
    text = story_of("a whale")
    bench.graph.create_entities([{"name": "long", "text": text}, {"name": "short", "text": "A story."}])
    (summary,) = bench.step()
    found = in_parts(text)
    expected = mean([vector_for(part, 256) for part in found], [len(part) for part in found])
    assert bench.vector("long") == pytest.approx(expected, abs=1e-6)
    assert math.hypot(*expected) == pytest.approx(1)
    assert bench.text("long").fresh
    assert bench.text("long").text == text
    assert "embedding_truncated" not in bench.graph.get_entity("long").properties
    # Parts are inputs, of the same request where they fit.
    assert (summary.embedded, summary.requests, summary.inputs) == (2, 1, len(found) + 1)
    assert sorted(bench.provider.inputs) == sorted([*found, "A story."])


def test_parts_go_in_as_many_requests_as_the_limits_allow_all_of_them_booked(make_library: MakeBench) -> None:
    """Guard: the loop over requests, and `_fitting` in each of them. The provider refuses a larger request."""
    bench = make_library(embed_batch_size=4)
    bench.graph.create_entities({"name": f"e{n}", "text": story_of(f"e{n}")} for n in range(3))
    inputs = sum(len(in_parts(story_of(f"e{n}"))) for n in range(3))
    (summary,) = bench.step()
    assert (summary.embedded, summary.inputs) == (3, inputs)
    assert summary.requests == len(bench.provider.journal) == math.ceil(inputs / 4)
    assert {request.status for request in bench.provider.journal} == {200}
    usage = bench.queue.rate_used()
    assert usage.requests == summary.requests


def test_one_bad_part_fails_its_entity_alone_and_once(make_library: MakeBench) -> None:
    bench = make_library(embed_batch_size=8)
    bench.graph.create_entities({"name": name, "text": story_of(name)} for name in ("good", "bad", "fine"))
    bench.provider.reply_to_text("Sentence 41 of bad", error(400, BAD))
    drain(bench)
    status = bench.queue.status()
    assert (status.completed, status.failed) == (2, 1)
    job = bench.job("bad")
    assert (job["failure_reason"], job["attempts"]) == ("permanent_error", 1)
    assert bench.vector("bad") is None
    assert bench.vector("good") is not None


def test_a_part_that_fails_for_a_moment_costs_one_attempt_and_no_part_is_paid_for_twice(
    make_library: MakeBench,
) -> None:
    """Guard: the parts that are kept. Without them all parts of both tries are asked for."""
    bench = make_library(embed_batch_size=4, embed_cache_mb=0)
    text = story_of("it")
    bench.graph.create_entities([{"name": "it", "text": text}])
    bench.provider.reply_to_text("Sentence 50 of it", error(500))
    bench.step()
    assert bench.vector("it") is None
    bench.provider.reply_to_text("Sentence 50 of it", None)
    drain(bench)
    job = bench.job("it")
    assert (job["status"], job["attempts"]) == ("completed", 1)
    passed = [part for request in bench.provider.journal if request.status == 200 for part in request.inputs]
    assert sorted(part for part in passed if part in text) == sorted(in_parts(text))


def test_a_budget_smaller_than_one_text_does_it_over_several_windows(make_library: MakeBench) -> None:
    """Seen failing without the parts that are kept: each window asked for the first parts again, and it never ended."""
    bench = make_library(embed_batch_size=2, embedding_rate_limit_tokens=2, embed_cache_mb=0)
    text = story_of("it")
    bench.graph.create_entities([{"name": "it", "text": text}])
    assert len(in_parts(text)) > 4
    drain(bench)
    assert bench.job("it")["status"] == "completed"
    assert bench.job("it")["attempts"] == 0
    assert sorted(bench.provider.inputs) == sorted(in_parts(text))


def test_the_same_long_text_is_paid_for_once(make_library: MakeBench) -> None:
    bench = make_library()
    bench.graph.create_entities({"name": name, "text": story_of("both")} for name in ("one", "two"))
    drain(bench)
    assert len(bench.provider.inputs) == len(in_parts(story_of("both")))
    assert bench.vector("one") == bench.vector("two")


def test_an_edit_of_the_last_sentence_is_a_new_text_of_few_new_parts(make_library: MakeBench) -> None:
    """The parts before it are kept by the process that asked for them."""
    bench = make_library()
    bench.graph.create_entities([{"name": "it", "text": story_of("it")}])
    drain(bench)
    before = len(bench.provider.inputs)
    bench.graph.update_entity("it", {"text": story_of("it") + " The end."})
    drain(bench)
    assert bench.text("it").fresh
    assert len(bench.provider.inputs) - before == 1


def test_a_timeout_makes_the_requests_of_the_parts_smaller(make_library: MakeBench) -> None:
    """Guard: `most_inputs`. Without it the second try asks for all parts at once, like the first."""
    bench = make_library()
    bench.graph.create_entities([{"name": "it", "text": story_of("it")}])
    bench.provider.reply_next(error(504))
    bench.step()
    drain(bench)
    assert bench.job("it")["status"] == "completed"
    sizes = [len(request.inputs) for request in bench.provider.journal]
    assert max(sizes[1:]) <= math.ceil(sizes[0] / 2), sizes


def test_a_dry_run_counts_parts(make_library: MakeBench) -> None:
    bench = make_library(embed_batch_size=4)
    bench.graph.create_entities({"name": f"e{n}", "text": story_of(f"e{n}")} for n in range(3))
    bench.queue.database.write("MATCH (j:EmbedJob) DELETE j")
    found = estimate(
        pages(bench.graph, Scope.ALL), bench.queue, bench.settings, bench.graph.model, leave_failed=True
    )
    inputs = sum(len(in_parts(story_of(f"e{n}"))) for n in range(3))
    assert (found.to_embed, found.inputs, found.truncated) == (3, inputs, 0)
    assert found.requests >= math.ceil(inputs / 4)
