"""What a provider says about its rate limits in the headers of every answer, refused ones included."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from neo4j_queue.retry import duration_s


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
