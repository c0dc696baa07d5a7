"""What a provider says about its rate limits in the headers of every answer, refused ones included."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Self


@dataclass(frozen=True, slots=True)
class RateHeaders:
    """What a provider says about its budgets: how much a minute holds, what is left of it, and seconds until it is full
    again."""

    limit_requests: int | None = None
    limit_tokens: int | None = None
    remaining_requests: int | None = None
    remaining_tokens: int | None = None
    reset_requests_s: float | None = None
    reset_tokens_s: float | None = None

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Self | None:
        """Reads `x-ratelimit-*`; None when there is none of them."""
        rate = cls(
            limit_requests=_count(headers.get("x-ratelimit-limit-requests")),
            limit_tokens=_count(headers.get("x-ratelimit-limit-tokens")),
            remaining_requests=_count(headers.get("x-ratelimit-remaining-requests")),
            remaining_tokens=_count(headers.get("x-ratelimit-remaining-tokens")),
            reset_requests_s=duration_s(headers.get("x-ratelimit-reset-requests")),
            reset_tokens_s=duration_s(headers.get("x-ratelimit-reset-tokens")),
        )
        return None if rate == cls() else rate


def _count(value: str | None) -> int | None:
    text = (value or "").strip()
    return int(text) if text.isascii() and text.isdigit() else None


# A provider's wish is bounded: "0" must not make all workers knock at once, and a day (or a typing error)
# must not stop the queue for a day: after an hour one request finds out.
WAIT_MIN_S = 0.1
WAIT_MAX_S = 3_600.0


def requested_wait_s(
    headers: Mapping[str, str], now: datetime | None = None, *, limited: bool = True
) -> float | None:
    """Seconds a provider asks to wait, `WAIT_MIN_S` to `WAIT_MAX_S`; None when it says nothing readable.

    Read in this order: `retry-after-ms`, `retry-after` (seconds or an HTTP date, taken against the server's
    own `date` header so that a wrong clock here does not matter), `x-ratelimit-reset-requests` and `-tokens`.
    The last two come with every answer: where it is not a limit that refuses (`limited`), only that of a budget which
    is used up counts. `headers` must look names up in lower case, as the client's headers do.
    """
    for wait in (
        _scaled(_number(headers.get("retry-after-ms")), 0.001),
        _number(headers.get("retry-after")),
        _until(headers.get("retry-after"), headers.get("date"), now),
        _reset(headers, limited=limited),
    ):
        if wait is not None:
            return min(max(wait, WAIT_MIN_S), WAIT_MAX_S)
    return None


def duration_s(value: str | None) -> float | None:
    """Seconds of a duration such as `6m0s`, `120ms`, `1.5s`, `1h2m` or plain `7`; None when it is none."""
    number = _number(value)
    if number is not None or value is None:
        return number
    text = value.strip().lower()
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(amount) * _UNIT_S[unit] for amount, unit in _PART.findall(text))


_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h|d)")
_DURATION = re.compile(f"(?:{_PART.pattern})+")
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def _number(value: str | None) -> float | None:
    """A plain non-negative decimal: `float` would take "nan", "inf" and "1_000" as well."""
    text = (value or "").strip()
    return float(text) if _NUMBER.fullmatch(text) else None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _until(value: str | None, date: str | None, now: datetime | None) -> float | None:
    """Seconds from the server's own time to an HTTP date; negative when it has passed."""
    moment = _http_date(value)
    if moment is None:
        return None
    reference = _http_date(date) or now or datetime.now(UTC)
    return (moment - reference).total_seconds()


def _http_date(value: str | None) -> datetime | None:
    if not value:
        return None
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):  # all of them come out of odd strings
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _reset(headers: Mapping[str, str], *, limited: bool) -> float | None:
    """The longer of the two reset times; of the exhausted budget alone where the headers say which it is, and where
    no limit refused."""
    resets: dict[bool, list[float]] = {True: [], False: []}
    for budget in ("requests", "tokens"):
        wait = duration_s(headers.get(f"x-ratelimit-reset-{budget}"))
        if wait is not None:
            resets[_number(headers.get(f"x-ratelimit-remaining-{budget}")) == 0.0].append(wait)
    return max(resets[True] or (resets[False] if limited else []), default=None)
