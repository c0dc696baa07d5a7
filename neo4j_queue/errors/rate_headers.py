"""The rate limits in the headers of a provider's answer, of a refusal too."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Self


@dataclass(frozen=True, slots=True)
class RateHeaders:
    """A provider's budgets: the limit of a minute, what is left of it, and seconds until it is full again."""

    limit_requests: int | None = None
    limit_tokens: int | None = None
    remaining_requests: int | None = None
    remaining_tokens: int | None = None
    reset_requests_s: float | None = None
    reset_tokens_s: float | None = None
    # The interval of the limits, where the server names it (`ratelimit-policy: 100;w=10`).
    window_s: float | None = None

    @classmethod
    def of(cls, headers: Mapping[str, str], now: datetime | None = None) -> Self | None:
        """Reads `x-ratelimit-*`; None when there is none of them."""
        clock = _clock(headers, now)
        rate = cls(
            limit_requests=_count(headers.get("x-ratelimit-limit-requests")),
            limit_tokens=_count(headers.get("x-ratelimit-limit-tokens")),
            remaining_requests=_count(headers.get("x-ratelimit-remaining-requests")),
            remaining_tokens=_count(headers.get("x-ratelimit-remaining-tokens")),
            reset_requests_s=_wait_s(headers.get("x-ratelimit-reset-requests"), clock),
            reset_tokens_s=_wait_s(headers.get("x-ratelimit-reset-tokens"), clock),
            window_s=_named_window_s(headers),
        )
        return None if rate == cls(window_s=rate.window_s) else rate

    def requests_window_s(self) -> float:
        """The interval of `limit_requests`, in seconds."""
        return self.window_s or _window_s(self.reset_requests_s)

    def tokens_window_s(self) -> float:
        """The interval of `limit_tokens`, in seconds."""
        return self.window_s or _window_s(self.reset_tokens_s)


# Limits are per minute, as most of their senders document, unless a budget needs longer to be full again: then they are
# per hour or per day (Groq counts requests per day and tokens per minute).
WINDOWS_S = (60.0, 3_600.0, 86_400.0)
# A reset is rounded up, and told a moment late.
RESET_SLACK_S = 2.0


def _window_s(reset_s: float | None) -> float:
    """The shortest usual interval that holds the reset."""
    return next((w for w in WINDOWS_S if (reset_s or 0.0) <= w + RESET_SLACK_S), WINDOWS_S[-1])


def _named_window_s(headers: Mapping[str, str]) -> float | None:
    """The interval of the first policy that a server names."""
    found = _POLICY.search(headers.get("ratelimit-policy") or "")
    return float(found.group(1)) if found and int(found.group(1)) > 0 else None


def _count(value: str | None) -> int | None:
    text = (value or "").strip()
    return int(text) if text.isascii() and text.isdigit() else None


# The wait is bounded: "0" must not make all workers ask at once, and a day (or a typing error) must not stop the queue
# for a day: after an hour one request finds out.
WAIT_MIN_S = 0.1
WAIT_MAX_S = 3_600.0


def requested_wait_s(
    headers: Mapping[str, str], now: datetime | None = None, *, limited: bool = True
) -> float | None:
    """The seconds that a provider asks to wait, `WAIT_MIN_S` to `WAIT_MAX_S`; None if it says nothing readable.

    Read in this order: `retry-after-ms`, `retry-after`, `x-ratelimit-reset-requests` and `-tokens`, `x-ratelimit-reset`
    and `ratelimit-reset`. Each may be a duration or a moment: an HTTP date, ISO 8601, or Unix time in seconds or
    milliseconds. A moment is taken against the server's own `date` header, so that a wrong clock here does not matter.
    The resets come with every answer. If no limit refused the request (`limited` is false), only the reset of a budget
    that is used up counts. `headers` must look names up in lower case, as the client's headers do.
    """
    clock = _clock(headers, now)
    milliseconds = _number(headers.get("retry-after-ms"))
    for wait in (
        None if milliseconds is None else _relative(milliseconds, clock, scale=0.001),
        _wait_s(headers.get("retry-after"), clock),
        _reset(headers, clock, limited=limited),
        _reset_of_all(headers, clock, limited=limited),
    ):
        if wait is not None:
            return min(max(wait, WAIT_MIN_S), WAIT_MAX_S)
    return None


def duration_s(value: str | None) -> float | None:
    """The seconds of a duration such as `6m0s`, `120ms`, `1.5s`, `1h2m` or plain `7`; None for any other text."""
    number = _number(value)
    if number is not None or value is None:
        return number
    text = value.strip().lower()
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(amount) * _UNIT_S[unit] for amount, unit in _PART.findall(text))


_POLICY = re.compile(r";\s*w=([0-9]{1,9})\b")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h|d)")
_DURATION = re.compile(f"(?:{_PART.pattern})+")
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def _number(value: str | None) -> float | None:
    """A plain non-negative decimal: `float` would take "nan", "inf" and "1_000" as well."""
    text = (value or "").strip()
    return float(text) if _NUMBER.fullmatch(text) else None


# No wait is longer than thirty years: from here on a number is Unix time, in seconds or in milliseconds.
_UNIX_S = 1e9
_UNIX_MS = 1e12


def _clock(headers: Mapping[str, str], now: datetime | None) -> datetime:
    """The server's own time, or ours if it does not say it."""
    return _http_date(headers.get("date")) or now or datetime.now(UTC)


def _wait_s(value: str | None, clock: datetime) -> float | None:
    """Seconds until a moment, or of a duration; negative if the moment has passed, None for any other text."""
    number = _number(value)
    if number is not None:
        return _relative(number, clock)
    duration = duration_s(value)
    if duration is not None:
        return duration
    moment = _http_date(value) or _iso_date(value)
    return None if moment is None else (moment - clock).total_seconds()


def _relative(number: float, clock: datetime, scale: float = 1.0) -> float:
    """Seconds of a number that is a duration in units of `scale` seconds, or Unix time."""
    if number >= _UNIX_MS:
        return number / 1000 - clock.timestamp()
    if number >= _UNIX_S:
        return number - clock.timestamp()
    return number * scale


def _http_date(value: str | None) -> datetime | None:
    if not value:
        return None
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):  # all of them come out of odd strings
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _iso_date(value: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat((value or "").strip())
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _reset(headers: Mapping[str, str], clock: datetime, *, limited: bool) -> float | None:
    """The longer of the reset times; of the exhausted budgets alone if the headers name one, or if no limit refused."""
    resets: dict[bool, list[float]] = {True: [], False: []}
    for budget in ("requests", "tokens"):
        wait = _wait_s(headers.get(f"x-ratelimit-reset-{budget}"), clock)
        if wait is not None:
            resets[_number(headers.get(f"x-ratelimit-remaining-{budget}")) == 0.0].append(wait)
    return max(resets[True] or (resets[False] if limited else []), default=None)


def _reset_of_all(headers: Mapping[str, str], clock: datetime, *, limited: bool) -> float | None:
    """The reset time of a server that has one budget, under the same rule."""
    for prefix in ("x-ratelimit", "ratelimit"):
        wait = _wait_s(headers.get(f"{prefix}-reset"), clock)
        if wait is not None and (limited or _number(headers.get(f"{prefix}-remaining")) == 0.0):
            return wait
    return None
