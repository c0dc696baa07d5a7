"""The provider in trouble, as all workers see it: breaker, quota, rate limits, and their ends (C3, C4, C13)."""

from dataclasses import replace

import pytest

from neo4j_queue.mock_provider import Reply, error, mangled
from neo4j_queue.pipeline.provider_call import SIBLING
from neo4j_queue.queue.breaker import FAILURES_TO_OPEN
from tests.pipeline.conftest import Bench, MakeBench

BAD = {"error": {"message": "cannot embed this", "type": "invalid_request_error"}}
QUOTA = {"error": {"message": "no credit", "type": "insufficient_quota", "code": "insufficient_quota"}}
BATCH = 100


def names(count: int) -> list[str]:
    return [f"e{n:04}" for n in range(count)]


def attempts(bench: Bench) -> list[int]:
    """The charged attempts of each batch: its jobs were charged alike."""
    charged = sorted(job["attempts"] for job in bench.queue.jobs(limit=10_000))
    groups = [set(charged[first : first + BATCH]) for first in range(0, len(charged), BATCH)]
    assert all(len(group) == 1 for group in groups), groups
    return [group.pop() for group in groups]


def probe_until_it_rests(bench: Bench) -> int:
    """Lets the rest pass and runs the probe; returns how many requests that made."""
    before = len(bench.provider.journal)
    state = bench.queue.control.state()
    bench.skip((state.paused_until - state.now) / 1000 + 0.01 if state.paused_until else 0)
    bench.step()
    return len(bench.provider.journal) - before


def test_after_five_failures_everybody_rests_and_nobody_else_is_charged(bench: Bench) -> None:
    """Guard: `judge_failure`. With a breaker that never opens, the last two batches are requested and charged."""
    bench.create(*names(7 * BATCH))
    bench.provider.reply_always(error(500))
    bench.step()
    assert len(bench.provider.journal) == FAILURES_TO_OPEN
    assert sorted(attempts(bench)) == [0, 0, 1, 1, 1, 1, 1]
    state = bench.queue.control.state()
    assert state.paused_until is not None
    assert state.paused_until - state.now == 5_000
    assert "outage" in (state.pause_reason or "")
    assert bench.queue.lease("test", batches=10).reason == "paused"


def test_one_probe_of_one_job_per_rest_and_it_is_charged_nothing(bench: Bench) -> None:
    """Guards: the size of a probe's lease, `charged` of `judge_failure`, and the delay of a probe's released job."""
    bench.create(*names(6 * BATCH))
    bench.provider.reply_always(error(500))
    bench.step()
    charged = sum(job["attempts"] for job in bench.queue.jobs(limit=10_000))
    for _ in range(3):
        assert probe_until_it_rests(bench) == 1
        assert len(bench.provider.journal[-1].inputs) == 1
    probed = [request.inputs[0] for request in bench.provider.journal[FAILURES_TO_OPEN:]]
    assert len(set(probed)) == 3, "what always fails by itself must not be every probe"
    assert sum(job["attempts"] for job in bench.queue.jobs(limit=10_000)) == charged
    state = bench.queue.control.state()
    assert (state.trouble, state.trouble_rounds) == ("outage", 4)


@pytest.mark.parametrize(
    "reply", [error(400, BAD), mangled("NaN"), error(418, BAD)], ids=["refused", "unusable", "unforeseen"]
)
def test_a_provider_that_fails_every_text_in_any_way_keeps_the_backlog(bench: Bench, reply: Reply) -> None:
    """Whatever a probe fails of: the rest grows, nothing is charged, and the next probe is another job.

    Guard: `doubt` in `Finish._report`. Without it each probe ends its job, and the next one is leased at once.
    """
    bench.create(*names(6 * BATCH))
    bench.provider.reply_always(error(500))
    bench.step()
    before = [job["attempts"] for job in bench.queue.jobs(limit=10_000)]
    bench.provider.reply_always(reply)
    probed, rests = [], []
    for _ in range(4):
        asked = len(bench.provider.journal)
        assert probe_until_it_rests(bench) == 2
        job, sibling = bench.provider.journal[asked:]
        assert sibling.inputs == (SIBLING,)
        probed.append(job.inputs)
        state = bench.queue.control.state()
        assert state.paused_until is not None
        rests.append(state.paused_until - state.now)
    assert len(set(probed)) == 4
    assert rests == sorted(set(rests))
    assert sorted(job["attempts"] for job in bench.queue.jobs(limit=10_000)) == sorted(before)
    assert bench.queue.status().failed == 0
    bench.provider.reply_always(None)
    assert probe_until_it_rests(bench) == 1
    bench.skip(10)
    bench.step()
    assert bench.queue.status().completed == 6 * BATCH


def test_a_bad_text_as_the_probe_does_not_keep_a_provider_closed_that_works(bench: Bench) -> None:
    """Guard: `ProviderCall._ask_sibling`. Without it one probe more is needed, and two bad texts alone never end."""
    bench.create("poison")
    bench.create(*names(5 * BATCH))
    bench.provider.reply_always(error(500))
    bench.step()
    bench.provider.reply_always(None)
    bench.provider.reply_to_text("Name: poison", error(400, BAD))
    bench.queue.database.write("MATCH (j:EmbedJob {entity_uid: 'poison'}) SET j.available_at = 0")
    assert probe_until_it_rests(bench) == 2
    assert "poison" in bench.provider.journal[-2].inputs[0]
    assert bench.queue.control.state().trouble is None
    bench.skip(10)
    bench.step()
    status = bench.queue.status()
    assert (status.completed, status.failed, status.unfinished) == (5 * BATCH, 1, 0)
    assert bench.job("poison")["failure_reason"] == "permanent_error"


def test_bad_texts_by_themselves_come_to_an_end(bench: Bench) -> None:
    """Two that the provider refuses, and nothing else to do: the sibling shows within the batch that it works."""
    bench.create("poison1", "poison2")
    bench.provider.reply_to_text("Name: poison", error(400, BAD))
    (summary,) = bench.step()
    assert (summary.failed, summary.released, summary.requests) == (2, 0, 4)
    status = bench.queue.status()
    assert (status.failed, status.unfinished) == (2, 0)
    assert bench.queue.control.state().trouble is None


def test_a_bad_probe_without_budget_for_a_sibling_is_followed_by_another_job(make_bench: MakeBench) -> None:
    """One request a minute: the bad text is charged nothing, stands back, and fails once the others have passed."""
    bench = make_bench(embedding_rate_limit_tokens=1)
    bench.create("poison", "a", "b")
    bench.queue.database.write("MATCH (c:QueueControl) SET c.trouble = 'outage', c.trouble_rounds = 1")
    bench.provider.reply_to_text("Name: poison", error(400, BAD))
    bench.queue.database.write("MATCH (j:EmbedJob {entity_uid: 'poison'}) SET j.available_at = 0")
    bench.skip(61)
    (summary,) = bench.step()
    assert (summary.jobs, summary.released, summary.requests) == (1, 1, 1)
    assert (bench.job("poison")["status"], bench.job("poison")["attempts"]) == ("pending", 0)
    bench.skip(61)
    (summary,) = bench.step()
    assert (summary.jobs, summary.embedded) == (1, 1)
    for _ in range(3):
        bench.skip(61)
        bench.step()
    status = bench.queue.status()
    assert (status.completed, status.failed, status.unfinished) == (2, 1, 0)


def test_a_refusal_of_a_single_text_is_a_verdict_and_the_second_in_a_row_asks_the_sibling(
    make_bench: MakeBench,
) -> None:
    """Requests of one text, to an endpoint that refuses everything: it costs one job, not the backlog.

    Guard: `doubts` in `ProviderCall._judge_one`. Without it five jobs fail for good before the breaker opens.
    """
    bench = make_bench(embed_batch_size=1)
    bench.create(*names(20))
    bench.provider.reply_always(error(400, BAD))
    for _ in range(5):
        bench.step()
        bench.skip(10)
    status = bench.queue.status()
    assert (status.failed, status.unfinished) == (1, 19)
    assert bench.queue.control.state().trouble == "outage"


def test_while_a_probe_is_out_nobody_else_gets_a_lease(bench: Bench) -> None:
    """Guard: `probing` in `judge`. Without it a second probe is leased."""
    bench.create(*names(6 * BATCH))
    bench.provider.reply_always(error(500))
    bench.step()
    bench.skip(6)
    (probe,) = bench.queue.lease("test", batches=10).leases
    assert len(probe.job_ids) == 1
    assert bench.queue.lease("test", batches=10).reason == "probing"


def test_a_probe_that_dies_is_followed_by_another(bench: Bench) -> None:
    bench.create(*names(6 * BATCH))
    bench.provider.reply_always(error(500))
    bench.step()
    bench.skip(6)
    (lost,) = bench.queue.lease("test", batches=10).leases
    bench.queue.start(lost.token, lost.job_ids)
    bench.skip(bench.settings.embed_job_lock_duration_ms / 1000 + 1)
    bench.queue.recover_stale()
    bench.provider.reply_always(None)
    bench.step()
    assert bench.queue.control.state().trouble is None


def test_a_probe_that_passes_ends_the_outage_for_all_at_the_full_batch_size(bench: Bench) -> None:
    bench.create(*names(6 * BATCH))
    bench.provider.reply_always(error(500))
    bench.step()
    bench.provider.reply_always(None)
    assert probe_until_it_rests(bench) == 1
    state = bench.queue.control.state()
    assert (state.trouble, state.paused) == (None, False)
    bench.step()
    assert [len(request.inputs) for request in bench.provider.journal[-6:]] == [100, 100, 100, 100, 100, 99]
    status = bench.queue.status()
    assert (status.completed, status.failed, status.unfinished) == (600, 0, 0)


def test_a_batch_that_waited_through_the_opening_is_given_back_not_sent(bench: Bench) -> None:
    """Leased before, started after the rest: only the probe may find out.

    Guard: `c.trouble` in jobs/start. Without it the batch is sent beside the probe.
    """
    bench.create(*names(6 * BATCH))
    leases = bench.queue.lease("test", batches=6).leases
    bench.provider.reply_always(error(500))
    for lease in leases[:5]:
        bench.pipeline.run(lease.token, lease.job_ids)
    bench.skip(6)
    late = bench.pipeline.run(leases[5].token, leases[5].job_ids)
    assert (late.refused, late.released) == ("paused", BATCH)
    assert len(bench.provider.journal) == 5


def test_a_success_between_failures_begins_the_count_anew(make_bench: MakeBench) -> None:
    """Guard: `note_success`. When it forgets nothing, the eighth failure opens the breaker.

    Requests of one text: those of several would ask for the sibling after a success.
    """
    bench = make_bench(embed_batch_size=1)
    bench.create(*names(9))
    replies = [error(500)] * 4 + [Reply()] + [error(500)] * 4
    bench.provider.reply_next(*replies)
    bench.step()
    assert bench.queue.control.state().trouble is None
    assert len(bench.provider.journal) == 9


def test_a_quota_rests_a_minute_then_two_with_one_probe_each_and_ends_by_itself(bench: Bench) -> None:
    """C4. Guard: the rounds of `judge_failure`. Without them each rest is a minute."""
    bench.create(*names(3 * BATCH))
    bench.provider.reply_always(error(429, QUOTA))
    bench.step()
    requests = len(bench.provider.journal)
    waits = []
    for _ in range(3):
        state = bench.queue.control.state()
        assert state.paused_until is not None
        waits.append(round((state.paused_until - state.now) / 1000))
        assert probe_until_it_rests(bench) == 1
    assert requests == 1
    health = bench.queue.health()
    assert health.state == "DEGRADED"
    assert "quota" in health.reasons[0]
    assert "no credit" in health.reasons[0]
    assert waits == [60, 120, 240]
    assert set(attempts_of_all(bench)) == {0}
    bench.provider.reply_always(None)
    assert probe_until_it_rests(bench) == 1
    bench.step()
    assert bench.queue.status().completed == 3 * BATCH


def attempts_of_all(bench: Bench) -> list[int]:
    return [job["attempts"] for job in bench.queue.jobs(limit=10_000)]


def test_rate_limits_without_a_wish_rest_longer_each_time_and_a_success_forgets_it(bench: Bench) -> None:
    """Guard: the rounds of `judge_failure`. Without them each rest is a second."""
    bench.create(*names(BATCH))
    bench.provider.reply_always(error(429))
    waits = []
    for _ in range(3):
        bench.step()
        state = bench.queue.control.state()
        assert state.paused_until is not None
        waits.append(round((state.paused_until - state.now) / 1000))
        bench.skip(waits[-1] + 0.1)
    assert waits == [1, 2, 4]
    assert set(attempts_of_all(bench)) == {0}
    bench.provider.reply_always(None)
    bench.step()
    assert bench.queue.status().completed == BATCH
    assert bench.queue.control.state().trouble_rounds == 0


@pytest.mark.parametrize("by_hand", ["resume", "success"])
def test_a_person_can_end_the_rest_at_once(bench: Bench, by_hand: str) -> None:
    bench.create(*names(6 * BATCH))
    bench.provider.reply_always(error(500))
    bench.step()
    bench.provider.reply_always(None)
    if by_hand == "resume":
        bench.queue.resume()
    else:
        probe_until_it_rests(bench)
    assert bench.queue.control.state().trouble is None
    assert sum(len(lease.job_ids) for lease in bench.queue.lease("test", batches=10).leases) >= 599


STALE = ("superseded", "deleted", "current", "copied")


def stale_jobs(bench: Bench, why: str) -> None:
    """Sixty jobs that need no request, in front of sixty that do; the provider was in trouble."""
    if why == "copied":
        bench.graph.recipe = bench.graph.recipe.of_properties(["observations"])
        bench.create("carrier", text="the same")
        bench.step()
    bench.create(*names(60), text="the same" if why == "copied" else "text of {}")
    if why == "current":
        bench.step()
        bench.queue.enqueue(
            replace(bench.text(name).request(bench.embedder.model), force=True) for name in names(60)
        )
    bench.skip(1)
    if why == "superseded":
        bench.create(*names(60), text="edited {}")
    if why == "deleted":
        bench.graph.database.write("MATCH (n:Entity) DETACH DELETE n")
    bench.create(*(f"good{n}" for n in range(60)))
    bench.queue.database.write("MATCH (c:QueueControl) SET c.trouble = 'outage', c.trouble_rounds = 1")


@pytest.mark.parametrize("why", STALE)
def test_a_probe_that_needs_no_request_asks_the_sibling(bench: Bench, why: str) -> None:
    """One lease transaction finds out that the provider works, whatever stands in front.

    Seen failing before the sibling: each stale job was a probe of its own, sixty transactions for sixty jobs.
    """
    stale_jobs(bench, why)
    asked = len(bench.provider.journal)
    (summary,) = bench.step()
    assert (summary.jobs, summary.requests) == (1, 1)
    assert bench.provider.journal[asked].inputs == (SIBLING,)
    assert bench.queue.control.state().trouble is None
    bench.step()
    assert bench.queue.status().unfinished == 0


@pytest.mark.parametrize("why", STALE)
@pytest.mark.parametrize(
    "reply", [error(500), error(400, BAD), error(429, QUOTA)], ids=["500", "400", "quota"]
)
def test_a_probe_that_needs_no_request_finds_the_provider_still_in_trouble(
    bench: Bench, why: str, reply: Reply
) -> None:
    """Its job ends all the same; the rest begins anew, and nothing is charged."""
    stale_jobs(bench, why)
    bench.provider.reply_always(reply)
    before = bench.queue.status().completed
    (summary,) = bench.step()
    assert (summary.requests, summary.failed, summary.retried) == (1, 0, 0)
    state = bench.queue.control.state()
    assert (state.trouble is not None, state.paused) == (True, True)
    assert bench.queue.status().completed == before + 1
    assert {job["attempts"] for job in bench.queue.jobs(status="pending", limit=1_000)} == {0}
