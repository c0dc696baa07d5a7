"""What a worker process tells the others about the provider, and when."""

from dataclasses import dataclass

import pytest

from neo4j_queue.errors.rate_headers import RateHeaders
from neo4j_queue.queue.provider_limits import ProviderReport, Reporter, found_inputs


@dataclass
class Batch:
    rate: RateHeaders | None = None
    estimated: int = 0
    charged: int = 0


def limited(requests: int | None = None, tokens: int | None = None) -> Batch:
    return Batch(RateHeaders(limit_requests=requests, limit_tokens=tokens))


def test_nothing_is_told_where_nothing_was_learned() -> None:
    reporter = Reporter()
    assert reporter.worth_telling(Batch(), 0.0) is None
    assert reporter.worth_telling(Batch(estimated=100, charged=105), 1.0) is None
    assert reporter.worth_telling(Batch(RateHeaders(remaining_requests=3)), 2.0) is None


def test_a_limit_is_told_at_once_again_when_it_changes_and_once_a_minute() -> None:
    reporter = Reporter()
    assert reporter.worth_telling(limited(600), 0.0) == ProviderReport(requests=600)
    assert reporter.worth_telling(limited(600), 59.9) is None
    assert reporter.worth_telling(limited(700), 59.9) == ProviderReport(requests=700)
    assert reporter.worth_telling(limited(700), 100.0) is None
    assert reporter.worth_telling(limited(700), 119.9) == ProviderReport(requests=700)


def test_a_limit_of_zero_is_no_wait_without_an_end() -> None:
    assert Reporter().worth_telling(limited(0, 0), 0.0) is None


def seen(reporter: Reporter, limit: int, headers: dict[str, str], now: float = 0.0) -> int | None:
    """The requests per minute that a reporter makes of an answer's headers."""
    rate = RateHeaders.of({"x-ratelimit-limit-requests": str(limit)} | headers)
    report = reporter.worth_telling(Batch(rate), now)
    return None if report is None else report.requests


@pytest.mark.parametrize(
    ("headers", "requests"),
    [
        ({}, 7_200),
        ({"x-ratelimit-reset-requests": "1m0s"}, 7_200),
        ({"x-ratelimit-reset-requests": "61s"}, 7_200),
        ({"x-ratelimit-reset-requests": "2m59.56s"}, 120),
        ({"x-ratelimit-reset-requests": "23h"}, 5),
        ({"ratelimit-policy": "7200;w=10"}, 43_200),
        ({"ratelimit-policy": '"burst";q=7200;w=3600'}, 120),
        ({"ratelimit-policy": "7200;w=0"}, 7_200),
        ({"ratelimit-policy": "many;w=soon"}, 7_200),
    ],
    ids=str,
)
def test_the_interval_of_a_limit_is_read_from_the_answers(headers: dict[str, str], requests: int) -> None:
    """Seen failing before: every limit was taken for one of a minute."""
    assert seen(Reporter(), 7_200, headers) == requests


def test_requests_of_a_day_and_tokens_of_a_minute_stand_side_by_side() -> None:
    rate = RateHeaders.of(
        {
            "x-ratelimit-limit-requests": "14400",
            "x-ratelimit-limit-tokens": "18000",
            "x-ratelimit-reset-requests": "2h",
            "x-ratelimit-reset-tokens": "7.66s",
        }
    )
    assert Reporter().worth_telling(Batch(rate), 0.0) == ProviderReport(requests=10, tokens=18_000)


def test_an_hour_that_is_nearly_over_is_no_minute() -> None:
    """Guard: `_longest`. Without it the limit jumps to that of a minute at the end of each hour."""
    reporter = Reporter()
    assert seen(reporter, 600, {"x-ratelimit-reset-requests": "50m"}) == 10
    assert seen(reporter, 600, {"x-ratelimit-reset-requests": "40s"}, 70.0) == 10
    assert seen(reporter, 900, {"x-ratelimit-reset-requests": "40s"}, 80.0) == 900


def test_the_setting_goes_before_the_answers_and_no_limit_becomes_zero() -> None:
    assert seen(Reporter(10_000), 100, {"x-ratelimit-reset-requests": "50m"}) == 600
    assert seen(Reporter(86_400_000), 100, {}) == 1


@pytest.mark.parametrize(("charged", "factor"), [(150, 1.5), (70, 0.7), (100_000, 8.0), (1, 0.25)])
def test_another_count_of_tokens_is_told_within_bounds(charged: int, factor: float) -> None:
    assert Reporter().worth_telling(Batch(estimated=100, charged=charged), 0.0) == ProviderReport(
        token_factor=factor
    )


def test_the_count_follows_slowly_and_small_changes_are_kept_to_oneself() -> None:
    reporter = Reporter()
    reporter.worth_telling(Batch(estimated=100, charged=150), 0.0)
    assert reporter.worth_telling(Batch(estimated=100, charged=160), 1.0) is None
    told = reporter.worth_telling(Batch(estimated=100, charged=300), 2.0)
    assert told is not None
    assert told.token_factor == pytest.approx(1.5 + 0.2 * 0.1 + 0.2 * (3.0 - 1.52))


@pytest.mark.parametrize(
    ("minutes", "refused", "slow", "expected"),
    [
        (0, None, None, None),
        (5, 32, None, 32),
        (24 * 60, 32, None, None),
        (9, None, 10, 10),
        (10, None, 10, 20),
        (35, None, 10, 80),
        (35, 32, 10, 32),
        (60 * 24 * 365, None, 1, 1 << 20),
        (-5, 32, 10, 10),
    ],
)
def test_a_found_size_is_forgotten_after_a_day_or_grows_again(
    minutes: int, refused: int | None, slow: int | None, expected: int | None
) -> None:
    """A size that was refused stands for a day, one that was too slow doubles every ten minutes."""
    now = 1_700_000_000_000
    at = now - minutes * 60_000
    assert found_inputs(now, refused, at, slow, at) == expected
