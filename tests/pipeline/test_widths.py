"""A model and settings that disagree about the width of vectors: the configuration's fault, found by one request."""

from typing import Any

import pytest

from neo4j_queue.checks.doctor import examine
from neo4j_queue.checks.findings import Finding, Grade
from neo4j_queue.errors import WrongWidth
from neo4j_queue.mock_provider import Reply, mangled
from tests.pipeline.conftest import Bench, MakeBench

NAMES = [f"e{n}" for n in range(3)]
# 256 dimensions are configured.
NARROW, ODD = 128, 255


def _narrow(answer: dict[str, Any]) -> dict[str, Any]:
    return {
        **answer,
        "data": [{**item, "embedding": item["embedding"][:NARROW]} for item in answer["data"]],
    }


ALL_NARROW = Reply(mangle=_narrow)


def provider_of(bench: Bench) -> Finding:
    """What `doctor` says of the provider."""
    (found,) = [each for each in examine(bench.settings) if each.subject == "provider"]
    return found


def test_a_width_that_no_vector_has_halts_after_one_request(bench: Bench) -> None:
    """No vector is stored, nothing is charged, and `resume` goes on once model and settings agree.

    Guard: `WrongWidth` in `validated`. Without it three attempts each are charged, and probes go out without an end.
    """
    bench.create(*NAMES)
    bench.provider.reply_always(ALL_NARROW)
    (summary,) = bench.step()
    assert (summary.requests, summary.released, summary.retried, summary.failed) == (1, 3, 0, 0)
    status = bench.queue.status()
    assert (status.halted, status.pending, status.paused_until) == (True, 3, None)
    assert status.halted_reason == (
        "WrongWidth: test-model is configured with 256 dimensions (NEO4J_VECTOR_DIMENSIONS), its vectors have 128: "
        "set NEO4J_VECTOR_DIMENSIONS to the model's width, or OPENAI_EMBEDDING_MODEL to another model"
    )
    assert bench.queue.health().state == "CRITICAL"
    assert {(job["attempts"], job["error_category"]) for job in bench.queue.jobs()} == {(0, "CRITICAL")}
    assert [bench.vector(name) for name in NAMES] == [None] * 3
    assert bench.step() == []
    bench.queue.resume()
    (summary,) = bench.step()
    assert (summary.requests, bench.queue.status().halted) == (1, True)
    bench.provider.reply_always(None)
    bench.queue.resume()
    assert bench.step()[0].embedded == 3


@pytest.mark.parametrize("answer", ["too few dimensions", "empty vector"])
def test_one_odd_vector_among_good_ones_is_no_reason_to_halt(bench: Bench, answer: str) -> None:
    """C8: the attempt counts, and the next answer may be good."""
    bench.create(*NAMES)
    bench.provider.reply_next(mangled(answer))
    (summary,) = bench.step()
    assert (summary.embedded, summary.retried, bench.queue.status().halted) == (0, 3, False)
    assert bench.step()[0].embedded == 3


def test_a_server_that_gives_no_shorter_vectors_is_named_with_the_setting(make_bench: MakeBench) -> None:
    """The reason fits into what statuses show of it, its advice included."""
    bench = make_bench(
        openai_embedding_dimensions=256, openai_embedding_model="an-embedding-model-of-a-long-name"
    )
    bench.create("a")
    bench.provider.reply_always(ALL_NARROW)
    bench.step()
    reason = bench.queue.status().halted_reason or ""
    assert "OPENAI_EMBEDDING_DIMENSIONS" in reason
    assert reason.endswith("and set NEO4J_VECTOR_DIMENSIONS to the model's width")


def test_doctor_knows_it_from_the_halt_without_a_request(bench: Bench, make_bench: MakeBench) -> None:
    """Guard: `_refuted`. Without it the provider is said to be fine."""
    assert provider_of(bench).grade is Grade.OK
    bench.create("a")
    bench.provider.reply_always(ALL_NARROW)
    bench.step()
    found = provider_of(bench)
    assert (found.grade, len(bench.provider.journal)) == (Grade.BAD, 1)
    assert found.detail == (
        "test-model is configured with 256 dimensions (NEO4J_VECTOR_DIMENSIONS), its vectors have 128"
    )
    assert (found.advice or "").startswith("set NEO4J_VECTOR_DIMENSIONS")
    # Mended since, and not resumed yet: what was found out is about other settings.
    assert provider_of(make_bench(neo4j_vector_dimensions=128)).grade is Grade.OK


def test_doctor_knows_the_width_of_known_models(make_bench: MakeBench) -> None:
    """Guard: `width_problems` in `_provider`. Without it only workers, which refuse to start, say so."""
    found = provider_of(make_bench(openai_embedding_model="text-embedding-3-small"))
    assert found.grade is Grade.BAD
    assert found.detail == "NEO4J_VECTOR_DIMENSIONS=256: the model text-embedding-3-small gives 1536"


def test_a_search_says_it_in_one_line(bench: Bench) -> None:
    bench.provider.reply_always(ALL_NARROW)
    with pytest.raises(WrongWidth) as raised:
        bench.graph.search("anything", strict=True)
    assert str(raised.value).startswith("test-model is configured with 256 dimensions")
    assert raised.value.exit_code == 78
