"""Back-off of a job, and the wait that a provider asks for."""

from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neo4j_queue.errors.rate_headers import WAIT_MAX_S, WAIT_MIN_S, duration_s, requested_wait_s
from neo4j_queue.queue.backoff import RetryPolicy
from neo4j_queue.settings import Settings

DEFAULT = RetryPolicy(
    max_attempts=3, base_delay_ms=1_000, max_delay_ms=60_000, multiplier=2.0, jitter_factor=0.1
)
EXACT = RetryPolicy(
    max_attempts=3, base_delay_ms=1_000, max_delay_ms=60_000, multiplier=2.0, jitter_factor=0.0
)
NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)

policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 100),
    base_delay_ms=st.integers(0, 86_400_000),
    max_delay_ms=st.integers(0, 86_400_000),
    multiplier=st.floats(1, 100),
    jitter_factor=st.floats(0, 1),
)


def test_the_delay_doubles_up_to_the_maximum() -> None:
    delays = [EXACT.delay_ms(attempt, Random(1)) for attempt in range(1, 9)]

    assert delays == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


def test_the_policy_is_that_of_the_settings() -> None:
    assert RetryPolicy.from_settings(Settings(_env_file=None)) == DEFAULT  # type: ignore[call-arg]


@given(attempt=st.integers(1, 6), seed=st.integers())
def test_jitter_spreads_by_its_share_of_the_delay(attempt: int, seed: int) -> None:
    exact = 1_000 * 2 ** (attempt - 1)

    assert abs(DEFAULT.delay_ms(attempt, Random(seed)) - exact) <= exact * 0.1 + 1


def test_jitter_makes_delays_differ() -> None:
    random = Random(4)

    assert len({DEFAULT.delay_ms(1, random) for _ in range(50)}) > 25


@given(policy=policies, attempt=st.integers(-5, 10**9), seed=st.integers())
def test_no_delay_is_negative_or_above_the_maximum(policy: RetryPolicy, attempt: int, seed: int) -> None:
    """Attempt 10^9 would be a float overflow, and the jitter would lift the maximum, without the guards."""
    delay = policy.delay_ms(attempt, Random(seed))

    assert isinstance(delay, int)
    assert 0 <= delay <= policy.max_delay_ms


@given(policy=policies, attempt=st.integers(1, 2_000))
def test_without_jitter_a_later_attempt_never_rests_less(policy: RetryPolicy, attempt: int) -> None:
    exact = RetryPolicy(
        policy.max_attempts, policy.base_delay_ms, policy.max_delay_ms, policy.multiplier, jitter_factor=0.0
    )

    assert exact.delay_ms(attempt, Random(0)) <= exact.delay_ms(attempt + 1, Random(0))


def test_a_base_of_zero_means_at_once_however_often() -> None:
    policy = RetryPolicy(3, 0, 60_000, 2.0, 0.1)

    assert {policy.delay_ms(attempt, Random(0)) for attempt in (1, 2, 5_000)} == {0}


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 7 "}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "0"}, WAIT_MIN_S),
        ({"retry-after": "86400"}, WAIT_MAX_S),
        ({"retry-after": "9" * 400}, WAIT_MAX_S),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sunday, 01-Mar-26 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sun, 01 Mar 2026 13:00:30 +0100"}, 30.0),
        ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, WAIT_MIN_S),
        ({"retry-after": "Mon, 02 Mar 2026 12:00:00 GMT"}, WAIT_MAX_S),
        # The server's clock is a day behind ours: what it means is half a minute.
        ({"retry-after": "Sat, 28 Feb 2026 12:00:30 GMT", "date": "Sat, 28 Feb 2026 12:00:00 GMT"}, 30.0),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:30 GMT", "date": "yesterday"}, 30.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1_000"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": "Mon, 99 Foo 20266 99:99:99 GMT"}, None),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-requests": "120ms"}, 0.12),
        ({"x-ratelimit-reset-tokens": "1.5s"}, 1.5),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "3s"}, 3.0),
        (
            {
                "x-ratelimit-reset-requests": "6m0s",
                "x-ratelimit-remaining-requests": "41",
                "x-ratelimit-reset-tokens": "3s",
                "x-ratelimit-remaining-tokens": "0",
            },
            3.0,
        ),
        ({"x-ratelimit-reset-requests": "2d"}, WAIT_MAX_S),
        ({"x-ratelimit-reset-requests": "0s"}, WAIT_MIN_S),
        ({"x-ratelimit-reset-requests": "soon"}, None),
        ({"retry-after": "soon", "x-ratelimit-reset-requests": "2s"}, 2.0),
        ({"retry-after": "5", "x-ratelimit-reset-requests": "6m0s"}, 5.0),
    ],
)
def test_the_wait_that_a_provider_asks_for(headers: dict[str, str], wait: float | None) -> None:
    """C3: every form seen in the wild, bounded on both sides."""
    assert requested_wait_s(headers, NOW) == pytest.approx(wait)


UNIX = int(NOW.timestamp())


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": str(UNIX + 10)}, 10.0),
        ({"retry-after": str((UNIX + 10) * 1000)}, 10.0),
        ({"retry-after": f"{UNIX + 10}.5"}, 10.5),
        ({"retry-after-ms": str((UNIX + 10) * 1000)}, 10.0),
        ({"x-ratelimit-reset-requests": str(UNIX + 10)}, 10.0),
        ({"x-ratelimit-reset": str((UNIX + 10) * 1000)}, 10.0),
        ({"ratelimit-reset": "7"}, 7.0),
        ({"retry-after": "1m30s"}, 90.0),
        ({"retry-after": "2026-03-01T12:00:10Z"}, 10.0),
        ({"x-ratelimit-reset-tokens": "2026-03-01T12:00:10"}, 10.0),
        # Against the server's own clock, wherever ours stands.
        ({"retry-after": str(UNIX + 5_010), "date": "Sun, 01 Mar 2026 13:23:20 GMT"}, 10.0),
        # Absurd ones are bounded: passed, far away, or the number of another unit.
        ({"retry-after": str(UNIX - 10)}, WAIT_MIN_S),
        ({"retry-after": "2000000000"}, WAIT_MAX_S),
        ({"retry-after": "9" * 30}, WAIT_MAX_S),
        ({"retry-after": "60000"}, WAIT_MAX_S),
        ({"retry-after": "9999-12-31T23:59:59Z"}, WAIT_MAX_S),
        ({"retry-after": "0001-01-01T00:00:00Z"}, WAIT_MIN_S),
    ],
)
def test_a_moment_is_no_duration(headers: dict[str, str], wait: float) -> None:
    """Seen failing before: a reset in ten seconds, written as Unix time, was an hour's rest."""
    assert requested_wait_s(headers, NOW) == pytest.approx(wait)


@pytest.mark.parametrize("prefix", ["x-ratelimit", "ratelimit"])
def test_the_reset_of_an_only_budget_counts_in_an_outage_when_it_is_used_up(prefix: str) -> None:
    for remaining, wait in (("3", None), ("0", 7.0)):
        headers = {f"{prefix}-reset": "7", f"{prefix}-remaining": remaining}
        assert requested_wait_s(headers, NOW, limited=False) == wait


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"x-ratelimit-reset-requests": "1m0s", "x-ratelimit-remaining-requests": "528"}, None),
        ({"x-ratelimit-reset-requests": "1m0s"}, None),
        ({"x-ratelimit-reset-requests": "1m0s", "x-ratelimit-remaining-requests": "0"}, 60.0),
        ({"x-ratelimit-reset-requests": "1m0s", "retry-after": "2"}, 2.0),
    ],
)
def test_what_an_outage_says_of_its_budgets_is_no_wish_to_wait(
    headers: dict[str, str], wait: float | None
) -> None:
    """A provider's reset headers come with each answer, a 500 as well."""
    assert requested_wait_s(headers, NOW, limited=False) == wait


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "retry-after",
                "retry-after-ms",
                "x-ratelimit-reset-requests",
                "x-ratelimit-reset-tokens",
                "date",
            ]
        ),
        st.text(max_size=60),
    )
)
def test_no_header_breaks_the_reading_or_the_bounds(headers: dict[str, str]) -> None:
    wait = requested_wait_s(headers)

    assert wait is None or WAIT_MIN_S <= wait <= WAIT_MAX_S


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m0s", 360.0),
        ("120ms", 0.12),
        ("1.5s", 1.5),
        ("1h2m3s", 3_723.0),
        ("2m59.56s", 179.56),
        ("500µs", 0.0005),
        ("7", 7.0),
        ("0s", 0.0),
        ("1D", 86_400.0),
        ("", None),
        (None, None),
        ("s", None),
        ("1x", None),
        ("-1s", None),
        ("1s later", None),
    ],
)
def test_durations_as_providers_write_them(text: str | None, seconds: float | None) -> None:
    assert duration_s(text) == pytest.approx(seconds)
