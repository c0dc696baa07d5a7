"""Why has this entity no fresh vector? The reasons that its jobs and the queue give, each planted."""

import pytest

from neo4j_queue.checks import in_force
from neo4j_queue.checks.fingerprint import fingerprint
from neo4j_queue.mock_provider import error
from neo4j_queue.queue import standing
from neo4j_queue.queue.leases import Worker
from neo4j_queue.reconcile.explanation import Reason
from neo4j_queue.text import content_version
from tests.pipeline.conftest import Bench, MakeBench
from tests.pipeline.explaining import at_work, cypher, why


@pytest.fixture
def working(bench: Bench) -> Bench:
    return at_work(bench)


# --- A job waits --------------------------------------------------------------------------------------------


def test_behind_others(working: Bench) -> None:
    working.create("x", "y", "z")
    working.skip(1)
    working.create("a")
    found = why(working)
    assert (found.reason, found.well) == (Reason.BEHIND_OTHERS, True)
    assert found.ahead == standing.Ahead(3)
    assert found.as_json()["ahead"] == {"jobs": 3, "more": False}
    assert why(working, "x").reason is Reason.NEXT


def test_more_are_before_it_than_are_counted(working: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: `COUNTED`. Without it the count grows with the queue."""
    monkeypatch.setattr(standing, "COUNTED", 2)
    working.create("x", "y", "z")
    working.skip(1)
    working.create("a")
    assert why(working).causes[0].why.startswith("more than 2 due jobs")


def test_how_long_it_takes_follows_from_how_fast_batches_ended(working: Bench) -> None:
    working.create(*(f"n{n}" for n in range(4)))
    for lease in working.queue.lease("test", batches=1).leases:
        working.skip(1)
        working.queue.start(lease.token, lease.job_ids, worker="w@test")
        working.skip(10)
        working.queue.complete(lease.token, lease.job_ids)
    working.create(*(f"m{n}" for n in range(8)))
    working.skip(1)
    working.create("a")
    found = why(working)
    # Four jobs in ten seconds: nine in twenty-two.
    assert found.ready_at is not None
    assert (found.ready_at - found.now) / 1000 == pytest.approx(22.5, abs=1)


def test_a_back_off(make_bench: MakeBench) -> None:
    bench = at_work(make_bench(embed_job_retry_base_delay_ms=30_000, embed_job_retry_jitter_factor=0))
    bench.create("a")
    bench.provider.reply_always(error(500, message="boom"))
    bench.step()
    found = why(bench)
    assert (found.reason, found.well, found.command) == (Reason.BACK_OFF, True, "neo4j-queue repair a")
    assert "(in 30 s) after attempt 1 of 3" in found.causes[0].why
    assert "HTTP 500" in found.causes[0].why
    (job,) = found.jobs
    assert (job.error_category, job.error_status, job.attempts) == ("TRANSIENT", 500, 1)


def test_leased_then_running_at_a_worker_then_its_lease_ran_out(working: Bench) -> None:
    working.create("a")
    (lease,) = working.queue.lease("control@test", batches=1).leases
    found = why(working)
    assert (found.reason, found.well) == (Reason.DISPATCHED, True)
    working.queue.start(lease.token, lease.job_ids, worker="w@test")
    found = why(working)
    assert (found.reason, found.well) == (Reason.RUNNING, True)
    assert found.causes[0].why.startswith("w@test has worked on its job since")
    assert found.jobs[0].owner == "w@test"
    working.skip(600)
    found = why(working)
    assert (found.reason, found.well) == (Reason.LEASE_RAN_OUT, True)
    off = why(working, embed_job_recovery_interval=0)
    assert (off.well, off.command) == (False, f"neo4j-queue release {lease.job_ids[0]}")


def test_halted(working: Bench) -> None:
    working.create("a")
    working.queue.halt("AuthenticationError: the key is wrong")
    found = why(working)
    assert (found.reason, found.well, found.command) == (Reason.HALTED, False, "neo4j-queue resume")
    assert "the key is wrong" in found.causes[0].why
    assert found.ready_at is None


def test_paused(working: Bench) -> None:
    working.create("a")
    working.queue.pause(600, "maintenance")
    found = why(working)
    assert (found.reason, found.well) == (Reason.PAUSED, True)
    assert "maintenance" in found.causes[0].why
    assert "(in 10 min)" in found.causes[0].why


def test_the_provider_rests_after_an_outage(make_bench: MakeBench) -> None:
    working = at_work(make_bench(embed_batch_size=1))
    working.create("a", *(f"n{n}" for n in range(8)))
    working.provider.reply_always(error(503))
    working.step()
    assert working.queue.control.state().trouble == "outage"
    found = why(working)
    assert (found.reason, found.well) == (Reason.RESTING, True)
    assert "a probe finds out whether it works again" in found.causes[0].why
    working.skip(400)
    assert why(working).reason is Reason.RESTING, "the rest is over, the probe is not out yet"


def test_a_quota_that_is_used_up_needs_a_person(working: Bench) -> None:
    working.create("a")
    working.provider.reply_always(error(402, message="payment required"))
    working.step()
    found = why(working)
    assert (found.reason, found.well) == (Reason.RESTING, False)
    assert "credit" in (found.advice or "")


def test_no_worker(bench: Bench) -> None:
    bench.create("a")
    found = why(bench)
    assert (found.reason, found.well, found.command) == (Reason.NO_WORKER, False, "celery -A tasks worker")


def test_nothing_asks_for_leases(working: Bench) -> None:
    """Embed workers answer, but no control worker or no beat is there. Fails without `_nobody_leases`: the job was said
    to be the next, for good."""
    working.create("a")
    assert why(working).reason is Reason.NEXT
    working.skip(40)
    working.queue.census.record([Worker("w@test", 2)])
    found = why(working)
    assert (found.reason, found.well, found.command) == (
        Reason.NOTHING_LEASES,
        False,
        "celery -A tasks beat",
    )
    working.queue.ticks.note(beat=False)
    assert why(working).reason is Reason.NEXT


def test_a_limit_of_nothing(make_bench: MakeBench) -> None:
    bench = at_work(make_bench(embedding_rate_limit_tokens=0))
    bench.create("a")
    found = why(bench)
    assert (found.reason, found.well) == (Reason.NO_REQUEST_ALLOWED, False)
    assert "EMBEDDING_RATE_LIMIT_TOKENS" in (found.advice or "")


def test_the_rate_limit_is_used_up(make_bench: MakeBench) -> None:
    bench = at_work(make_bench(embedding_rate_limit_tokens=2, embed_batch_size=1))
    bench.create("x", "y")
    bench.step()
    bench.create("a")
    found = why(bench)
    assert (found.reason, found.well) == (Reason.RATE_LIMIT, True)
    assert "2 used of 2 requests per 60 s" in found.causes[0].why
    assert found.ready_at is not None
    assert 55 <= (found.ready_at - found.now) / 1000 <= 65


def test_other_settings_are_in_force(working: Bench) -> None:
    """Guard: the fingerprint of `_around`. Without it the job is said to be the next, and no worker will do it."""
    working.create("a")
    own = fingerprint(working.settings, working.graph.database)
    in_force.put(working.queue.database, own.replace("label:", "label:0"))
    found = why(working)
    assert (found.reason, found.well, found.command) == (
        Reason.SETTINGS_NOT_IN_FORCE,
        False,
        "neo4j-queue init",
    )
    assert "(label differ)" in found.causes[0].why


# --- A job has ended ----------------------------------------------------------------------------------------


def test_failed_for_good_at_once(working: Bench) -> None:
    working.create("a", "b")
    working.provider.reply_to_text("Name: a", error(400, message="no such words"))
    working.step()
    found = why(working)
    assert (found.reason, found.well) == (Reason.FAILED, False)
    assert "no such words" in found.causes[0].why
    job = next(job for job in found.jobs if job.current)
    assert found.command == f"neo4j-queue retry {job.id}"
    assert (job.outcome, job.error_category) == ("permanent_error", "PERMANENT")


def test_failed_after_all_its_attempts(working: Bench) -> None:
    working.create("a", "b")
    working.provider.reply_to_text("Name: a", error(500, message="boom"))
    for _ in range(12):
        working.step()
        working.skip(10)
    found = why(working)
    assert found.reason is Reason.FAILED
    assert "after 3 attempts: TRANSIENT" in found.causes[0].why
    assert found.jobs[-1].outcome == "max_retries_exceeded"


def test_failed_since_its_workers_died(make_bench: MakeBench) -> None:
    bench = at_work(make_bench(embed_job_max_crashes=1))
    bench.create("a")
    for _ in range(2):
        (lease,) = bench.queue.lease("test", batches=1).leases
        bench.queue.start(lease.token, lease.job_ids, worker="w@test")
        bench.skip(600)
        bench.queue.recover_stale()
    found = why(bench)
    assert (found.reason, found.well) == (Reason.FAILED, False)
    assert "2 workers died" in found.causes[0].why
    assert found.jobs[0].outcome == "worker_lost"


def test_superseded_jobs_stand_before_the_one_for_the_text_as_it_is(working: Bench) -> None:
    working.create("a", text="first {}")
    working.skip(1)
    working.create("a", text="second {}")
    working.step()
    working.skip(1)
    working.create("a", text="third {}")
    found = why(working)
    assert found.reason is Reason.NEXT
    assert [(job.outcome, job.current) for job in found.jobs] == [
        ("superseded", False),
        ("embedded", False),
        (None, True),
    ]


def test_a_job_for_an_earlier_text_brings_the_right_one(working: Bench) -> None:
    """Another program edited the text before the job ran. Fails without `earlier`: a person was asked to queue it."""
    working.create("a")
    cypher(working, "MATCH (n:Entity {name: 'a'}) SET n.observations = ['edited'] REMOVE n:EmbedPending")
    found = why(working)
    assert (found.reason, found.well) == (Reason.EARLIER_JOB, True)
    working.queue.halt("the key is wrong")
    assert (why(working).reason, why(working).well) == (Reason.HALTED, False)
    working.queue.resume()
    working.step()
    assert why(working).reason is Reason.NEXT, "its worker has queued the text as it is now"
    working.step()
    assert why(working).reason is Reason.FRESH


def test_more_jobs_than_are_shown(working: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job for the text as it is now is always among them. Fails without `versions` in jobs/history."""
    monkeypatch.setattr(standing, "LOOKED_AT", 3)
    texts = [f"{n} {{}}" for n in range(8)]
    # The index has the jobs of an entity by their versions: that of the last text is the last one looked at.
    texts.sort(key=lambda text: content_version(f"Name: a\nType: \nObservations:\n- {text.format('a')}"))
    for text in texts:
        working.skip(1)
        working.create("a", text=text)
    found = why(working)
    assert found.more_jobs
    assert len(found.jobs) <= 4
    assert any(job.current for job in found.jobs)
