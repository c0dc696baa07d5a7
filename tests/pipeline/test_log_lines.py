"""The lines of a batch have the fields that docs/reference/log-events.md names."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from neo4j.exceptions import ServiceUnavailable
from structlog.testing import capture_logs

from neo4j_queue.mock_provider import error
from tests.pipeline.conftest import Bench, MakeBench

OF_A_JOB = {"job_id", "entity_name", "lease_token", "attempt", "max_attempts"}
Lines = list[Any]


@pytest.fixture
def lines() -> Iterator[Lines]:
    with capture_logs() as lines:
        yield lines


def of(lines: Lines, event: str) -> Lines:
    return [line for line in lines if line["event"] == event]


def test_a_completed_job(bench: Bench, lines: Lines) -> None:
    bench.create("a")
    bench.step()
    (started,), (done,) = of(lines, "embedding_job_started"), of(lines, "embedding_job_completed")
    assert started.keys() >= OF_A_JOB
    assert done.keys() >= OF_A_JOB | {"outcome", "duration_ms", "embedding_size", "cache"}
    assert (done["entity_name"], done["attempt"], done["max_attempts"]) == ("a", 1, 3)
    assert (done["outcome"], done["embedding_size"], done["cache"]) == ("embedded", 256, "miss")


def test_a_job_that_ends_without_a_vector_has_no_size(bench: Bench, lines: Lines) -> None:
    bench.create("a")
    bench.graph.delete_entity("a")
    bench.step()
    (done,) = of(lines, "embedding_job_completed")
    assert (done["outcome"], done["embedding_size"]) == ("entity_deleted", None)


def test_a_failed_job_says_which_limits_are_in_force(make_bench: MakeBench, lines: Lines) -> None:
    """Guard: `rate_limiter` that the pipeline gives its log."""
    bench = make_bench(embedding_rate_limit_tokens=600, embedding_rate_limit_model_tokens=50_000)
    bench.create("a")
    bench.provider.reply_always(error(500))
    bench.step()
    (failed,) = of(lines, "embedding_job_failed")
    assert failed.keys() >= OF_A_JOB | {
        *("error_type", "error", "stack", "model", "provider_status", "request_id", "rate_limiter", "cache"),
        *("observations", "will_retry", "retry_at", "failure_reason", "error_class"),
    }
    assert failed["rate_limiter"] == "600 requests, 50000 tokens in 60 s"
    assert (failed["rate_requests"], failed["rate_tokens"] > 0) == (1, True)
    ends = datetime.fromisoformat(failed["rate_window_ends"]).timestamp() * 1000
    assert 0 <= bench.clock() + bench.queue.limits.window_ms - ends < 10_000
    assert (failed["will_retry"], failed["attempt"]) == (True, 1)


def test_a_failed_job_is_told_though_the_rate_limits_cannot_be_read(
    bench: Bench, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: the `except` of `Finish._rate_used`. Without it the batch ends with that error, and no line is written."""

    def away() -> None:
        raise ServiceUnavailable

    monkeypatch.setattr(bench.queue, "rate_used", away)
    bench.create("a")
    bench.provider.reply_always(error(500))
    bench.step()
    (failed,) = of(lines, "embedding_job_failed")
    assert failed["rate_requests"] is None


def test_jobs_that_failed_by_one_request_show_its_stack_once(make_bench: MakeBench, lines: Lines) -> None:
    """The others name the job that has it; each job's node has it whole. Another request has a stack of its own.

    Guard: `told` in `JobLog.settled`. Without it a batch of 256 is two megabytes of log.
    """
    bench = make_bench(embed_batch_size=3)
    bench.create(*"abcde")
    bench.provider.reply_always(error(500))
    bench.step()
    failed = of(lines, "embedding_job_failed")
    whole = [line for line in failed if line["stack"].count("\n") > 1]
    assert [line["lease_token"] for line in whole] == list(
        dict.fromkeys(line["lease_token"] for line in failed)
    )
    assert (len(whole), len(failed)) == (2, 5)
    first = {line["lease_token"]: line["job_id"] for line in whole}
    for line in failed:
        if line not in whole:
            assert line["stack"].startswith(
                f"as of job {first[line['lease_token']]}: openai.InternalServerError"
            )
    assert all(job["error_stack"].count("\n") > 1 for job in bench.queue.jobs())


def test_jobs_that_are_given_back_are_named_with_their_entities(bench: Bench, lines: Lines) -> None:
    bench.create("a", "b")
    bench.provider.reply_next(error(429))
    bench.step()
    (released,) = of(lines, "embedding_job_released")
    ids = {name: bench.job(name)["id"] for name in "ab"}
    assert dict(zip(released["entities"], released["ids"], strict=True)) == ids
    assert (released["count"], released["reason"]) == (2, "rate_limit")
    assert released["lease_token"]


def test_a_halt_says_why(bench: Bench, lines: Lines) -> None:
    bench.create("a")
    bench.provider.reply_always(error(401))
    bench.step()
    (halted,) = of(lines, "queue_halted")
    assert halted["reason"] == "configuration"
    assert "401" in halted["error"]
