"""Requests keep to the provider's limits (C7): against a server that enforces them, for each profile."""

import random

import pytest
import structlog

from neo4j_queue.embedders.cut import cautious_tokens, cut
from neo4j_queue.jobs import Status
from neo4j_queue.mock_provider import FAULTS, Limits, Request, Rules, error, mangled, tokens_of, vector_for
from neo4j_queue.pipeline.pipeline import Summary
from neo4j_queue.providers import PROFILES, Profile
from tests.pipeline.conftest import Bench, MakeBench

WORDS = ["the", "whale", "swims", "in", "a", "sea", "and", "captains", "hunt", "it", "for", "seven", "years"]
CJK = "知识就是力量真理使我们摆脱无知和恐惧的束缚"
EMOJI = "😀🚀🎉🌍👩‍👩‍👧‍👦👍🏽"


def prose(rng: random.Random, tokens: int) -> str:
    """English of about so many tokens."""
    words: list[str] = []
    size = 0
    while size < 4 * tokens:
        words.append(rng.choice(WORDS))
        size += len(words[-1]) + 1
    return " ".join(words)


def mixed_texts(profile: Profile) -> list[str]:
    """Two hundred texts of every kind and length, in no order; more than one request takes."""
    rng = random.Random(profile.name)
    full = profile.max_input_tokens
    texts = [prose(rng, rng.randint(1, 40)) for _ in range(150)]
    texts += [prose(rng, rng.randint(full // 20, full // 4)) for _ in range(20)]
    texts += [prose(rng, full - 40) for _ in range(6 + profile.max_request_tokens // full)]
    texts += [prose(rng, 8_000) for _ in range(4)] + [prose(rng, 2 * full) for _ in range(4)]
    texts += ["".join(rng.choices(CJK, k=k)) for k in (20, full // 4, full // 2, full, 2 * full)]
    texts += [EMOJI * k for k in (1, 5, full // 100, full // 10, full)]
    texts += [
        "x" * 5 * full,
        "12345" * full,
        "e\u0301" * full,
        "\t" * 3 * full + "end",
        "é" * full,
        "a\n" * full,
    ]
    rng.shuffle(texts)
    return texts


def limits_of(profile: Profile) -> Limits:
    return Limits(
        max_inputs=profile.max_inputs,
        max_input_tokens=profile.max_input_tokens,
        max_request_tokens=profile.max_request_tokens,
    )


def drain(bench: Bench) -> list[Summary]:
    summaries: list[Summary] = []
    while bench.queue.status().pending:
        summaries += bench.step()
    return summaries


def flagged(bench: Bench) -> set[str]:
    found = bench.graph.database.read("MATCH (n:Entity {embedding_truncated: true}) RETURN n.name AS name")
    return {row["name"] for row in found}


@pytest.mark.parametrize("name", PROFILES)
def test_a_server_that_enforces_the_limits_never_refuses(make_bench: MakeBench, name: str) -> None:
    """What is planned is what fits: nothing refused, nothing left over for another request.

    Guards: the cut (without it: 400 for the long texts), the bounds of the plan (with either of them doubled: texts
    are left over) and behind them `ProviderCall._fitting` (with both doubled: 400 for the batches).
    """
    profile = PROFILES[name]
    bench = make_bench(embedding_profile=name, embed_batch_size=None)
    assert bench.embedder.profile == profile
    bench.provider.limits = limits_of(profile)
    texts = mixed_texts(profile)
    bench.graph.recipe = bench.graph.recipe.of_properties(["text"])
    bench.graph.create_entities({"name": f"n{n}", "text": text} for n, text in enumerate(texts))

    summaries = drain(bench)

    assert {request.status for request in bench.provider.journal} == {200}
    status = bench.queue.status()
    assert (status.completed, status.failed) == (len(texts), 0)
    assert sum(summary.released for summary in summaries) == 0
    long = {f"n{n}" for n, text in enumerate(texts) if cautious_tokens(text) > profile.max_input_tokens}
    assert flagged(bench) == long
    assert len(long) >= 8
    assert max(fullness(request, profile) for request in bench.provider.journal) > 0.8, (
        "requests are far from full"
    )


def fullness(request: Request, profile: Profile) -> float:
    """How much of the tighter limit a request uses."""
    return max(len(request.inputs) / profile.max_inputs, request.tokens / profile.max_request_tokens)


# --- what an entity with a long text has in the end


LONG = "A long story. " * 1_000


@pytest.fixture
def story(make_bench: MakeBench) -> Bench:
    """A chain whose model takes a hundred tokens, and an entity with more than that."""
    bench = make_bench(embed_input_tokens=100)
    bench.graph.recipe = bench.graph.recipe.of_properties(["text"])
    bench.graph.create_entities([{"name": "long", "text": LONG}, {"name": "short", "text": "A story."}])
    bench.provider.limits = Limits(max_input_tokens=100)
    return bench


def test_a_long_text_is_cut_flagged_and_said_so_without_its_words(story: Bench) -> None:
    with structlog.testing.capture_logs() as lines:
        (summary,) = story.step()

    assert summary.embedded == 2
    kept = cut(LONG, 100)
    assert story.vector("long") == pytest.approx(vector_for(kept, 256), abs=1e-6)
    assert flagged(story) == {"long"}
    (line,) = [line for line in lines if line["event"] == "embedding_text_truncated"]
    assert line == {
        "event": "embedding_text_truncated",
        "log_level": "warning",
        "entity_name": "long",
        "characters_kept": len(kept),
        "characters": len(LONG),
    }
    assert "story" not in str(lines)


def test_hash_and_freshness_are_those_of_the_whole_text(story: Bench) -> None:
    """A change beyond the cut is a new text, whose vector is due."""
    story.step()
    assert story.text("long").fresh
    assert story.text("long").text == LONG
    story.graph.update_entity("long", {"text": LONG + "The end."})
    assert not story.text("long").fresh
    story.step()
    assert story.text("long").fresh


def test_the_flag_goes_with_the_next_whole_vector_and_is_seen_by_readers(story: Bench) -> None:
    """Guard: `CASE … END` in `graph/write_vectors`, which is null for a whole text; without it the flag stays."""
    story.step()
    assert story.graph.get_entity("long").properties["embedding_truncated"] is True
    assert "embedding_truncated" not in story.graph.get_entity("short").properties
    (hit, *_) = story.graph.search("x", limit=1, embed=lambda _: story.vector("long") or [])
    assert (hit.uid, hit.properties["embedding_truncated"]) == ("long", True)

    story.graph.update_entity("long", {"text": "Now it is short."})
    # The old vector serves until then, and the flag is about the vector.
    assert flagged(story) == {"long"}
    story.step()
    assert flagged(story) == set()


def test_nobody_else_may_write_the_flag(story: Bench) -> None:
    with pytest.raises(ValueError, match="embedding_truncated"):
        story.graph.update_entity("long", {"embedding_truncated": False})


def test_a_long_text_fails_where_it_may_not_be_cut(make_bench: MakeBench) -> None:
    bench = make_bench(embed_input_tokens=100, embed_long_texts="fail")
    bench.graph.recipe = bench.graph.recipe.of_properties(["text"])
    bench.graph.create_entities([{"name": "long", "text": LONG}, {"name": "short", "text": "A story."}])
    (summary,) = bench.step()
    assert (summary.embedded, summary.failed, summary.inputs) == (1, 1, 1)
    job = bench.job("long")
    assert (job["failure_reason"], job["attempts"]) == ("permanent_error", 1)
    assert job["error"].startswith("the text is too long: about 3500 tokens, the model takes 100")
    assert bench.vector("long") is None


def test_a_text_that_the_provider_finds_too_long_fails_for_good_with_its_reason(story: Bench) -> None:
    """Our count was too low for its tokenizer: not cut again, for whoever reads the reason sets the right limit."""
    story.provider.reply_to_text("A long", error(400, message="maximum context length is 50 tokens"))
    (summary,) = story.step()
    assert (summary.embedded, summary.failed) == (1, 1)
    assert "maximum context length is 50 tokens" in story.job("long")["error"]


def test_long_texts_are_planned_at_the_size_at_which_they_are_sent(story: Bench) -> None:
    """Guard: the minimum in `Bounds.charge`. Without it the lease books 14,005 tokens for the 392 that are sent."""
    story.graph.create_entities({"name": f"long{n}", "text": f"{n} {LONG}"} for n in range(3))
    (lease,) = story.queue.lease("test", batches=100).leases
    assert lease.est_tokens <= 4 * 100 + 2
    story.pipeline.run(lease.token, lease.job_ids)
    assert story.queue.status().completed == 5
    assert {tokens_of(text) <= 100 for text in story.provider.inputs} == {True}


def test_a_refused_long_text_does_not_count_against_its_neighbours(make_bench: MakeBench) -> None:
    bench = make_bench(embed_input_tokens=100, embed_long_texts="fail")
    bench.graph.recipe = bench.graph.recipe.of_properties(["text"])
    bench.graph.create_entities({"name": f"n{n}", "text": f"{n} {LONG}"} for n in range(3))
    (summary,) = bench.step()
    assert (summary.failed, summary.requests) == (3, 0)
    assert {job["status"] for job in bench.queue.jobs(limit=10)} == {Status.FAILED}


# --- servers of other dialects, and what their refusals say


def test_a_server_that_leaves_out_index_0_embeds_everything(make_bench: MakeBench) -> None:
    """Seen failing before: every answer was refused, and all jobs failed for good."""
    bench = make_bench(embed_batch_size=7)
    bench.provider.reply_always(mangled("index 0 left out"))
    bench.create(*(f"n{n}" for n in range(20)))
    drain(bench)

    assert bench.queue.status().completed == 20
    assert bench.vector("n7") == pytest.approx(vector_for(bench.text("n7").text, 256), abs=1e-6)


def test_a_refused_field_costs_one_request_which_is_counted(make_bench: MakeBench) -> None:
    bench = make_bench(embed_batch_size=10)
    bench.provider.rules = Rules(refused_fields=frozenset({"encoding_format"}))
    bench.create(*(f"n{n}" for n in range(20)))
    summaries = drain(bench)

    assert bench.queue.status().completed == 20
    assert sum(summary.requests for summary in summaries) == len(bench.provider.journal) == 3


def test_texts_have_their_prefix_and_their_field(make_bench: MakeBench) -> None:
    bench = make_bench(embedding_profile="nvidia", embed_passage_prefix="passage: ")
    bench.provider.rules = Rules(needed_fields=frozenset({"input_type"}))
    bench.create("a")
    drain(bench)

    (request,) = bench.provider.journal
    assert request.inputs == ("passage: " + bench.text("a").text,)
    assert request.fields["input_type"] == "passage"
    assert bench.text("a").fresh
    assert bench.job("a")["model"].startswith("test-model+")


@pytest.mark.parametrize("status", [421, 423, 424, 425, 499])
def test_a_server_that_says_later_fails_nobody_for_good(make_bench: MakeBench, status: int) -> None:
    """Seen failing before: one such answer failed the whole batch for good."""
    bench = make_bench()
    bench.provider.reply_next(error(status, message="backend is down"))
    bench.create(*(f"n{n}" for n in range(20)))
    bench.step()
    assert bench.queue.status().failed == 0
    drain(bench)

    assert bench.queue.status().completed == 20


@pytest.mark.parametrize("fault", ["expired-key", "wrong-key", "no-model"])
def test_a_key_that_expires_halts_and_fails_nobody(make_bench: MakeBench, fault: str) -> None:
    bench = make_bench()
    bench.provider.reply_always(FAULTS[fault])
    bench.create("a", "b")
    bench.step()
    status = bench.queue.status()
    assert (status.failed, status.pending, bench.queue.control.state().halted) == (0, 2, True)

    bench.provider.reply_always(None)
    bench.queue.resume()
    drain(bench)
    assert bench.queue.status().completed == 2


@pytest.mark.parametrize("fault", ["budget", "quota"])
def test_a_budget_that_is_used_up_rests_and_fails_nobody(make_bench: MakeBench, fault: str) -> None:
    bench = make_bench()
    bench.provider.reply_always(FAULTS[fault])
    bench.create("a", "b")
    bench.step()
    status = bench.queue.status()
    assert status.failed == 0
    assert status.paused_until is not None
    assert not bench.queue.control.state().halted
    assert bench.job("a")["attempts"] == 0


def test_a_text_about_unpaid_bills_stops_no_queue(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.create("bill", text="Your credit balance is too low, and the API key expired")
    bench.create(*(f"n{n}" for n in range(10)))
    bench.provider.reply_to_text(
        "credit", error(400, message="refused: Your credit balance is too low, and the")
    )
    bench.step()

    status = bench.queue.status()
    assert (status.completed, status.failed, bench.queue.control.state().halted) == (10, 1, False)
    assert status.paused_until is None


def test_a_proxy_that_cannot_be_used_halts_with_its_name(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks://127.0.0.1:1080")
    bench = make_bench()
    bench.create("a", "b")
    bench.step()

    state = bench.queue.control.state()
    assert state.halted
    assert "ALL_PROXY=socks://127.0.0.1:1080" in (state.halted_reason or "")
    assert bench.queue.status().failed == 0


def test_a_server_of_another_dialect_halts_with_advice_and_fails_nobody(make_bench: MakeBench) -> None:
    """Seen failing before: the attempts of every job ran out."""
    bench = make_bench()
    bench.provider.reply_always(mangled("HTML"))
    bench.create(*(f"n{n}" for n in range(20)))
    bench.step()

    state = bench.queue.control.state()
    assert bench.queue.status().failed == 0
    assert state.halted
    assert "OPENAI_BASE_URL" in (state.halted_reason or "")


def test_a_server_that_numbers_no_vectors_is_asked_for_one_at_a_time(make_bench: MakeBench) -> None:
    """Vectors are never paired by order. Guard: `DIALECT` in `_bisect`; without it each batch is bisected anew."""
    bench = make_bench()
    bench.provider.reply_always(mangled("no index"))
    bench.create(*(f"n{n}" for n in range(20)))
    drain(bench)
    assert (bench.queue.status().completed, bench.queue.status().failed) == (20, 0)

    asked = len(bench.provider.journal)
    bench.create(*(f"m{n}" for n in range(5)))
    drain(bench)
    assert bench.queue.status().completed == 25
    assert [len(request.inputs) for request in bench.provider.journal[asked:]] == [1] * 5
