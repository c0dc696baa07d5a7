"""What a settlement makes of verdicts before anything is stored."""

from collections.abc import Sequence
from random import Random

import pytest

from neo4j_queue.errors import ErrorCategory, Fault, FaultKind, UnembeddableText, classify
from neo4j_queue.jobs import FailureReason, Outcome
from neo4j_queue.queue.backoff import RetryPolicy
from neo4j_queue.queue.health import OK, HealthState, judge
from neo4j_queue.queue.leases import Completion, FailedJob, Failure, LeasedJob, Verdicts
from neo4j_queue.queue.settle import SettleTransaction

POLICY = RetryPolicy(3, 1_000, 60_000, 2.0, 0.0)


def settling(verdicts: Verdicts) -> SettleTransaction:
    return SettleTransaction("1-00000000", verdicts, None, True, 0, POLICY, Random(1), 0)


def failure(
    job_id: str = "a", category: ErrorCategory = ErrorCategory.TRANSIENT, attempts: int = 0
) -> Failure:
    job = LeasedJob(job_id, "entity", "mock", "v", attempts, 3)
    return Failure(job, Fault(category, FaultKind.OUTAGE, "APITimeoutError", "too slow"))


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        (Verdicts(), "released"),
        (Verdicts(released=["a"]), "released"),
        (Verdicts(completed=[Completion("a", Outcome.SUPERSEDED)], released=["b"]), "completed"),
        (Verdicts(failed=[failure()]), "completed"),
    ],
)
def test_a_lease_with_any_verdict_ends_completed(given: Verdicts, outcome: str) -> None:
    assert settling(given).outcome == outcome


@pytest.mark.parametrize(
    ("category", "attempts", "reason"),
    [
        (ErrorCategory.TRANSIENT, 0, None),
        (ErrorCategory.TRANSIENT, 1, None),
        (ErrorCategory.TRANSIENT, 2, FailureReason.MAX_RETRIES_EXCEEDED),
        (ErrorCategory.PERMANENT, 0, FailureReason.PERMANENT_ERROR),
        (ErrorCategory.PERMANENT, 2, FailureReason.PERMANENT_ERROR),
    ],
)
def test_which_failures_are_final(
    category: ErrorCategory, attempts: int, reason: FailureReason | None
) -> None:
    assert settling(Verdicts())._reason(failure("a", category, attempts)) == reason


def marks(embedded: int, failed: int, others: Sequence[Completion] = ()) -> list[str]:
    completions = [*(Completion(f"c{n}", Outcome.EMBEDDED) for n in range(embedded)), *others]
    failures = [failure(f"f{n}") for n in range(failed)]
    stored = [FailedJob(each, 1, None, None) for each in failures]
    ids = frozenset(completion.job_id for completion in completions)
    return settling(Verdicts(completions, failures))._marks(ids, stored)


def test_only_vectors_and_counted_attempts_say_something_about_embedding() -> None:
    others = [Completion("d", Outcome.ENTITY_DELETED), Completion("e", Outcome.ALREADY_CURRENT)]
    assert marks(1, 1, others) == ["TRANSIENT:APITimeoutError", OK]


def test_a_text_that_no_provider_was_asked_for_says_nothing_about_embedding() -> None:
    """Guard: `UNASKED`. Without it five blank texts are five failures in a row. One that the provider refused stays a
    mark: it was asked."""
    job = LeasedJob("a", "entity", "mock", "v", 0, 3)
    unasked = Failure(job, classify(UnembeddableText("the text is empty")))
    refused = Failure(job, Fault(ErrorCategory.PERMANENT, FaultKind.ITEM, "BadRequestError", "too long", 400))
    stored = [FailedJob(each, 1, None, FailureReason.PERMANENT_ERROR) for each in (unasked, refused)]
    assert settling(Verdicts(failed=[unasked, refused]))._marks(frozenset(), stored) == [
        "PERMANENT:BadRequestError"
    ]


def test_bad_texts_among_good_ones_are_no_streak() -> None:
    """The jobs of a batch have no order. Fails when failures are put after the successes: ten bad texts among
    ninety good ones would be CRITICAL."""
    mixed = marks(90, 10)
    health = judge(mixed[::-1])
    assert (health.state, health.consecutive_failures, health.success_rate) == (HealthState.HEALTHY, 0, 0.9)


def test_a_batch_that_failed_altogether_is_a_streak() -> None:
    assert judge(marks(0, 12)[::-1]).state is HealthState.CRITICAL
    assert judge(marks(1, 11)[::-1]).state is HealthState.DEGRADED
