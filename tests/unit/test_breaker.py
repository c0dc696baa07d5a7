"""What failures of the provider mean for all workers: the pure judgement."""

from dataclasses import replace

import pytest

from neo4j_queue.queue.breaker import (
    FAILURES_TO_OPEN,
    RESTS,
    Judgement,
    ProviderFacts,
    Trouble,
    judge_failure,
)

NOW = 1_000_000
CALM = ProviderFacts(
    now=NOW,
    ours=True,
    leased_at=NOW - 100,
    probe=False,
    trouble=None,
    rounds=0,
    failures=0,
    paused_until=None,
)
# The rest has ended, and this lease was given after it.
PROBE = replace(CALM, probe=True, trouble="outage", rounds=1, failures=5, paused_until=NOW - 200)
# Leased before the rest began, like everything that was in flight then.
OLD = replace(PROBE, probe=False, leased_at=NOW - 9_000)


def judged(
    facts: ProviderFacts, trouble: Trouble, asked_s: float | None = None, to_open: int = FAILURES_TO_OPEN
) -> Judgement:
    return judge_failure(facts, trouble, asked_s, to_open)


def test_failures_in_a_row_open_the_breaker_and_each_of_them_is_a_verdict() -> None:
    facts = CALM
    seen = []
    for _ in range(FAILURES_TO_OPEN):
        judgement = judged(facts, Trouble.OUTAGE)
        seen.append((judgement.charged, judgement.begins, judgement.wait_ms))
        facts = replace(facts, failures=judgement.failures)
    assert seen == [(True, False, 0)] * 4 + [(True, True, 5_000)]


def test_a_failed_probe_charges_nobody_and_makes_the_rest_longer() -> None:
    judgement = judged(PROBE, Trouble.OUTAGE)
    assert judgement == Judgement(Trouble.OUTAGE, rounds=2, failures=6, wait_ms=5_200, begins=True)


def test_what_was_in_flight_charges_nobody_and_changes_nothing() -> None:
    assert judged(OLD, Trouble.OUTAGE) == Judgement(Trouble.OUTAGE, rounds=1, failures=6)


@pytest.mark.parametrize(
    ("trouble", "rests"),
    [
        (Trouble.QUOTA, [60, 120, 240, 480, 960, 1_920, 3_600, 3_600]),
        (Trouble.RATE_LIMIT, [1, 2, 4, 8, 16, 32, 60, 60]),
    ],
)
def test_each_round_rests_longer_up_to_a_maximum(trouble: Trouble, rests: list[int]) -> None:
    facts = replace(PROBE, trouble=str(trouble), rounds=0)
    seen = []
    for _ in rests:
        judgement = judged(facts, trouble, to_open=1)
        seen.append(judgement.wait_ms // 1000)
        facts = replace(facts, rounds=judgement.rounds)
    assert seen == rests


@pytest.mark.parametrize(
    ("outage_s", "found_over_within_s"), [(60, 7.5), (600, 30), (3_600, 150), (86_400, 300)]
)
def test_an_outage_is_found_over_soon_for_its_length(outage_s: int, found_over_within_s: float) -> None:
    passed, rounds = 0.0, 0
    while passed < outage_s:
        rounds += 1
        passed += RESTS[Trouble.OUTAGE].seconds(rounds)
    assert passed - outage_s <= found_over_within_s
    assert rounds <= 400


def test_the_thousandth_round_still_has_a_number() -> None:
    assert RESTS[Trouble.QUOTA].seconds(1_000) == 3_600


@pytest.mark.parametrize("trouble", [Trouble.QUOTA, Trouble.RATE_LIMIT])
def test_a_limit_is_heeded_at_once_and_is_no_verdict(trouble: Trouble) -> None:
    judgement = judged(CALM, trouble)
    assert (judgement.trouble, judgement.charged, judgement.begins, judgement.failures) == (
        trouble,
        False,
        True,
        0,
    )


@pytest.mark.parametrize(
    ("trouble", "asked_s", "wait_s"),
    [
        (Trouble.RATE_LIMIT, 0.1, 0.1),
        (Trouble.RATE_LIMIT, 3_600.0, 3_600.0),
        (Trouble.OUTAGE, 1.0, 5.0),
        (Trouble.OUTAGE, 20.0, 20.0),
        (Trouble.OUTAGE, 3_600.0, 300.0),
        (Trouble.QUOTA, 600.0, 600.0),
    ],
)
def test_the_wait_that_the_provider_asks_for(trouble: Trouble, asked_s: float, wait_s: float) -> None:
    """A rate limit is taken at its word. Of an outage, only as far as our own longest rest: it cannot know."""
    assert judged(CALM, trouble, asked_s, to_open=1).wait_ms == wait_s * 1000


def test_one_failure_with_a_wish_to_wait_stops_nobody_else() -> None:
    assert judged(CALM, Trouble.OUTAGE, 3_600.0).wait_ms == 0


def test_of_several_answers_to_one_rate_limit_the_longest_wait_counts_and_the_rounds_are_one() -> None:
    resting = replace(CALM, trouble="rate_limit", rounds=1, paused_until=NOW + 1_000)
    assert judged(resting, Trouble.RATE_LIMIT, 10.0) == Judgement(Trouble.RATE_LIMIT, 1, 0, wait_ms=10_000)
    assert judged(resting, Trouble.RATE_LIMIT) == Judgement(Trouble.RATE_LIMIT, 1, 0)


def test_an_outage_after_a_rate_limit_is_counted_like_any_other() -> None:
    limited = replace(CALM, trouble="rate_limit", rounds=3, paused_until=NOW - 500)
    first = judged(limited, Trouble.OUTAGE)
    assert (first.trouble, first.rounds, first.charged, first.begins) == (Trouble.RATE_LIMIT, 3, True, False)
    fifth = judged(replace(limited, failures=4), Trouble.OUTAGE)
    assert (fifth.trouble, fifth.rounds, fifth.charged, fifth.begins) == (Trouble.OUTAGE, 1, True, True)


def test_a_probe_that_meets_another_trouble_begins_that_one() -> None:
    judgement = judged(PROBE, Trouble.QUOTA)
    assert (judgement.trouble, judgement.rounds, judgement.wait_ms) == (Trouble.QUOTA, 1, 60_000)
