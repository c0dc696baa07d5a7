"""What a worker process tells the others about the provider, and when."""

from dataclasses import dataclass

import pytest

from neo4j_queue.errors.rate_headers import RateHeaders
from neo4j_queue.queue.provider_limits import ProviderReport, Reporter


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
