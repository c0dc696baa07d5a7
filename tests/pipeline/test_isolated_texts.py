"""Texts that a provider does not take, among others: which are judged, how many requests that costs, who rests (C6).

The provider works all the time; what fails is one text, one size or one moment.
"""

from typing import Any

import pytest

from neo4j_queue.checks import doctor
from neo4j_queue.mock_provider import Reply, error, mangled, server
from neo4j_queue.pipeline.provider_call import SIBLING
from tests.pipeline.conftest import Bench, MakeBench

BAD = {"error": {"message": "cannot embed this", "type": "invalid_request_error"}}
FORBIDDEN = "<html><body><h1>Request blocked</h1></body></html>"
# Found by halving fifty texts: the batch, two parts on each of six levels, the sibling.
FIFTY = 1 + 2 * 6 + 1


def names(count: int, prefix: str = "e") -> list[str]:
    return [f"{prefix}{n:04}" for n in range(count)]


def ended(bench: Bench) -> tuple[int, int, int]:
    status = bench.queue.status()
    return status.completed, status.failed, status.unfinished


def drain(bench: Bench, *, windows: int, seconds: float) -> int:
    """Leases and runs until nothing is left; returns how many windows that took."""
    for n in range(windows):
        while bench.step():
            pass
        if not bench.queue.status().unfinished:
            return n + 1
        bench.skip(seconds)
    raise AssertionError(f"{bench.queue.status()}")


# -- the budget is used up -----------------------------------------------------------------------------------


def test_a_bad_text_while_the_budget_is_used_up_is_no_outage(make_bench: MakeBench) -> None:
    """Four batches are the whole budget of a window; one of them holds a bad text. None rests, and the next leases
    halve its batch.

    Seen failing when a sibling that was not asked counted as refused: the trouble was "outage", and all rested.
    """
    bench = make_bench(embedding_rate_limit_tokens=4)
    bench.create("poison", *names(399))
    bench.provider.reply_to_text("Name: poison", error(400, BAD))
    summaries = bench.step()
    state = bench.queue.control.state()
    assert (state.trouble, state.paused_until) == (None, None)
    assert sum(summary.released for summary in summaries) == 100
    assert {job["attempts"] for job in bench.queue.jobs(status="pending", limit=1_000)} == {0}
    drain(bench, windows=8, seconds=61)
    assert ended(bench) == (399, 1, 0)
    assert bench.job("poison")["failure_reason"] == "permanent_error"
    assert not any("max_batch" in job for job in bench.queue.jobs(status="completed", limit=1_000))


def test_the_limit_is_used_up_while_every_batch_holds_a_bad_text(make_bench: MakeBench) -> None:
    """Every request that a window allows is sent in it, and no window is a rest."""
    bench = make_bench(embedding_rate_limit_tokens=10, embed_batch_size=20)
    for n in range(10):
        bench.create(*names(19, f"b{n}-"), f"poison{n}")
    bench.provider.reply_to_text("Name: poison", error(400, BAD))
    sent: list[int] = []
    while bench.queue.status().unfinished:
        before = len(bench.provider.journal)
        while bench.step():
            pass
        sent.append(len(bench.provider.journal) - before)
        assert bench.queue.control.state().trouble is None
        bench.skip(61)
        assert len(sent) < 40
    assert set(sent[:-1]) == {10}
    assert ended(bench) == (190, 10, 0)


def test_a_limit_of_one_request_finds_a_bad_text(make_bench: MakeBench) -> None:
    """The lease holds the only token there is: its own request does the halving.

    Seen failing before `max_batch`: one text for each probe, and a rest between them.
    """
    bench = make_bench(embedding_rate_limit_tokens=1, embedding_rate_limit_interval=1_000)
    bench.create("poison", *names(63))
    bench.provider.reply_to_text("Name: poison", error(400, BAD))
    windows = drain(bench, windows=30, seconds=1.1)
    assert ended(bench) == (63, 1, 0)
    assert windows <= 1 + 2 * 6 + 1


def test_parts_of_a_refused_request_are_judged_by_model_tokens_too(make_bench: MakeBench) -> None:
    """Seen failing before `reserve` booked tokens: the halves went out beyond the limit of tokens."""
    bench = make_bench(embedding_rate_limit_model_tokens=2_000)
    bench.create("poison", *names(79), text="words " * 6 + "{}")
    bench.provider.reply_to_text("Name: poison", error(400, BAD))
    (summary,) = bench.step()
    asked = sum(len(text) for request in bench.provider.journal for text in request.inputs)
    assert asked / 4 < 2_000, "tokens of the window"
    assert (summary.failed, bench.queue.control.state().trouble) == (0, None)


# -- every text of a batch is refused ------------------------------------------------------------------------


def test_bad_texts_in_front_delay_good_ones_by_no_more_than_the_halving(make_bench: MakeBench) -> None:
    """Whole batches of bad texts: the sibling passes, so that the texts are to blame, and no worker rests.

    Seen failing before the sibling was asked within the batch: an outage with each of them, 17 judged in two minutes.
    """
    bench = make_bench(embed_batch_size=32)
    bench.create(*names(75, "poison"))
    bench.create(*names(75, "good"))
    bench.provider.reply_to_text("Name: poison", error(400, BAD))
    for _ in range(60):
        if not bench.step():
            break
        assert bench.queue.control.state().trouble is None
    assert ended(bench) == (75, 75, 0)
    assert len(bench.provider.journal) < 6 * 75


def test_the_sibling_tells_an_endpoint_that_refuses_everything(bench: Bench) -> None:
    """Four requests: the batch, its halves, the sibling. All rest, and no job is judged."""
    bench.create(*names(100))
    bench.provider.reply_always(error(400, BAD))
    (summary,) = bench.step()
    assert (summary.requests, summary.released, summary.failed) == (4, 100, 0)
    assert bench.provider.journal[-1].inputs == (SIBLING,)
    assert bench.queue.control.state().trouble == "outage"


# -- failures that are one text's ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        *(error(status, BAD) for status in (500, 502, 503, 418, 424, 499, 451, 520)),
        mangled("null vector"),
        mangled("NaN"),
        mangled("short"),
    ],
    ids=["500", "502", "503", "418", "424", "499", "451", "520", "null", "NaN", "short"],
)
def test_one_text_that_makes_the_provider_fail_hurts_no_other(bench: Bench, reply: Reply) -> None:
    """Seen failing before failures were bisected: all fifty failed for good at the third attempt."""
    bench.create("first")
    bench.step()
    bench.create("poison", *names(49))
    bench.provider.reply_to_text("Name: poison", reply)
    (summary,) = bench.step()
    assert (summary.embedded, summary.failed + summary.retried) == (49, 1)
    assert summary.requests <= FIFTY
    assert bench.queue.control.state().trouble is None
    for _ in range(3):
        bench.step()
    assert ended(bench) == (50, 1, 0)


@pytest.mark.parametrize("reply", [error(500), mangled("null vector")], ids=["500", "null"])
def test_at_the_last_attempt_the_others_are_spared_though_nothing_passed_before(
    bench: Bench, reply: Reply
) -> None:
    """A process that knows nothing of its provider yet: as many requests as attempts, and the halving at the end."""
    bench.create("poison", *names(49))
    bench.provider.reply_to_text("Name: poison", reply)
    for _ in range(6):
        bench.step()
    assert ended(bench) == (49, 1, 0)


def test_an_outage_costs_no_more_than_one_sibling(bench: Bench) -> None:
    """It worked a moment ago: the first batch that fails asks for the sibling, the others believe it."""
    bench.create("first")
    bench.step()
    bench.create(*names(400))
    bench.provider.reply_always(error(503))
    asked = len(bench.provider.journal)
    bench.step()
    assert len(bench.provider.journal) - asked == 4 + 1
    assert {job["attempts"] for job in bench.queue.jobs(status="pending", limit=1_000)} == {1}


# -- refusals that are a moment's, or one text's ---------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403, 404, 405, 407, 410])
def test_a_single_refusal_of_the_configuration_does_not_halt_the_fleet(bench: Bench, status: int) -> None:
    """One replica of a gateway. Seen failing before the sibling confirmed it: the queue halted."""
    bench.create(*names(20))
    bench.provider.reply_next(error(status, BAD))
    (summary,) = bench.step()
    assert (summary.embedded, summary.requests) == (20, 1 + 1 + 2)
    assert not bench.queue.status().halted


@pytest.mark.parametrize("status", [401, 404])
def test_a_single_refusal_of_one_text_is_tried_again(bench: Bench, status: int) -> None:
    bench.create("a")
    bench.provider.reply_next(error(status, BAD))
    (summary,) = bench.step()
    assert (summary.embedded, summary.requests) == (1, 3)


@pytest.mark.parametrize("count", [1, 30])
def test_a_text_that_a_firewall_forbids_fails_with_the_reason(bench: Bench, count: int) -> None:
    """Seen failing before: the queue halted, and again after each `resume`."""
    bench.create("poison", *names(count - 1))
    bench.provider.reply_to_text("Name: poison", error(403, FORBIDDEN))
    (summary,) = bench.step()
    assert (summary.embedded, summary.failed, summary.requests <= FIFTY) == (count - 1, 1, True)
    job = bench.job("poison")
    assert (job["failure_reason"], job["error_status"]) == ("permanent_error", 403)
    assert "Request blocked" in job["error"]
    assert not bench.queue.status().halted


def test_a_refusal_that_is_no_longer_confirmed_within_the_budget_makes_all_rest(
    make_bench: MakeBench,
) -> None:
    """No token is left for the sibling: nothing halts on one answer. The probe after the rest is the second request."""
    bench = make_bench(embedding_rate_limit_tokens=1)
    bench.create(*names(3))
    bench.provider.reply_always(error(401, BAD))
    bench.step()
    status = bench.queue.status()
    assert (status.halted, bench.queue.control.state().trouble) == (False, "outage")
    bench.skip(61)
    bench.step()
    assert bench.queue.status().halted
    assert {job["attempts"] for job in bench.queue.jobs()} == {0}


# -- sizes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "message", "found"),
    [
        (413, "batch size 100 > maximum allowed batch size 32", 32),
        (422, "batch size 100 > maximum allowed batch size 40", 40),
        (400, "too many inputs", 25),
        (400, "at most 32 requests can be in one batch", 32),
    ],
)
def test_a_size_that_is_refused_is_learned(
    bench: Bench, status: int, message: str, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next leases keep to it, in every process; all are told, and no job fails.

    Seen failing before: each batch was refused and halved again.
    """
    bench.create(*names(400))
    refuse_above(monkeypatch, found, error(status, {"error": {"message": message, "type": "Validation"}}))
    (lease,) = bench.queue.lease("test", batches=1).leases
    bench.pipeline.run(lease.token, lease.job_ids)
    assert bench.queue.control.state().found_inputs == found
    asked = len(bench.provider.journal)
    bench.step()
    assert {len(request.inputs) for request in bench.provider.journal[asked:]} <= {found, 300 % found}
    assert ended(bench) == (400, 0, 0)
    bench.queue.resume()
    assert bench.queue.control.state().found_inputs is None


def refuse_above(monkeypatch: pytest.MonkeyPatch, most: int, reply: Reply) -> None:
    """The provider refuses requests of more inputs in this way."""
    monkeypatch.setattr(
        server, "over_size", lambda request, _limits: reply if len(request.inputs) > most else None
    )


def timeouts(bench: Bench, fits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of more than `fits` inputs are not answered in time."""
    embed = type(bench.embedder).embed

    def slow(embedder: Any, texts: Any) -> Any:
        if len(texts) > fits:
            raise TimeoutError("the total deadline of 2 s has passed")
        return embed(embedder, texts)

    monkeypatch.setattr(type(bench.embedder), "embed", slow)


@pytest.mark.parametrize("known", [True, False])
def test_batches_shrink_until_they_fit_the_deadline(
    bench: Bench, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow server, known to work or not. Seen failing before: 199 of 200 failed for good."""
    if known:
        bench.create("first")
        bench.step()
    timeouts(bench, 12, monkeypatch)
    bench.create(*names(200))
    for _ in range(60):
        bench.step()
        bench.skip(6)
        if not bench.queue.status().unfinished:
            break
    assert ended(bench) == (200 + known, 0, 0)
    bench.create(*names(100, "later"))
    bench.step()
    found = bench.queue.control.state().found_inputs
    assert found is not None
    assert found <= 50
    bench.skip(601)
    assert bench.queue.control.state().found_inputs == 2 * found


def test_a_text_that_the_server_never_answers_does_not_shrink_all_batches(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One half for ten minutes at most: the parts of a slow batch tell nothing of sizes."""
    embed = type(bench.embedder).embed

    def hang(embedder: Any, texts: Any) -> Any:
        if any("Name: poison" in text for text in texts):
            raise TimeoutError("the total deadline of 2 s has passed")
        return embed(embedder, texts)

    bench.create("first")
    bench.step()
    monkeypatch.setattr(type(bench.embedder), "embed", hang)
    bench.create("poison", *names(99))
    for _ in range(12):
        bench.step()
    assert ended(bench) == (100, 1, 0)
    assert bench.queue.control.state().found_inputs == 50


@pytest.mark.parametrize(("refused", "slow"), [(32, None), (None, 16), (32, 16), (16, 32)])
def test_doctor_and_status_show_a_found_size(bench: Bench, refused: int | None, slow: int | None) -> None:
    """A refused one with the setting that avoids it."""
    bench.queue.control.size_found(refused, slow)
    status = bench.queue.status()
    assert (status.found_inputs, status.inputs_refused) == (16, refused == 16) or refused == 32
    (finding,) = [
        each for each in doctor._queue(bench.queue, bench.settings, asked=False) if each.subject == "provider"
    ]
    assert f"EMBED_BATCH_SIZE={status.found_inputs}" in str(finding.advice)
    bench.queue.resume()
    assert bench.queue.status().found_inputs is None


@pytest.mark.parametrize("count", [1, 40])
def test_answers_that_no_text_explains_halt_the_queue_and_fail_nobody(bench: Bench, count: int) -> None:
    """A proxy's page with status 200, for the sibling as well: the address or the dialect is wrong."""
    bench.create(*names(count))
    bench.provider.reply_always(Reply(body="<html>welcome</html>", content_type="text/html"))
    (summary,) = bench.step()
    assert (summary.released, summary.requests) == (count, 2)
    status = bench.queue.status()
    assert (status.halted, status.failed) == (True, 0)
    assert {job["attempts"] for job in bench.queue.jobs(limit=100)} == {0}


def test_one_answer_that_no_text_explains_is_a_moment(bench: Bench) -> None:
    bench.create(*names(40))
    bench.provider.reply_next(Reply(body="<html>welcome</html>", content_type="text/html"))
    (summary,) = bench.step()
    assert (summary.embedded, summary.requests) == (40, 4)


@pytest.mark.parametrize(("refusals", "halted"), [(1, False), (2, True)])
def test_a_probe_without_a_text_halts_only_on_the_second_refusal(
    bench: Bench, refusals: int, halted: bool
) -> None:
    """Its job needs no request, and the sibling gets 401: asked again on a new connection."""
    bench.create("a")
    bench.graph.delete_entity("a")
    bench.queue.database.write("MATCH (c:QueueControl) SET c.trouble = 'outage', c.trouble_rounds = 1")
    bench.provider.reply_next(*[error(401, BAD)] * refusals)
    bench.step()
    assert bench.queue.status().halted == halted
    assert (bench.queue.control.state().trouble is None) == (not halted)
