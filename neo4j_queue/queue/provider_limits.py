"""What workers learn about the provider's account from its answers, and when they report it to all others.

A provider names its real limits in its answers, and counts tokens in its own way. Each worker keeps what it saw and
writes it to the control node when it is new or getting old; lease transactions judge by it.
"""

from dataclasses import dataclass
from typing import Protocol

from neo4j_queue.errors.rate_headers import RateHeaders

# Limits are kept per minute, whatever the provider counts in. A report counts for ten minutes: then a limit may have
# been raised, or the provider changed.
WINDOW_MS = 60_000
GOOD_FOR_MS = 600_000
RENEW_AFTER_S = 60.0
# The factor follows a change of the texts within some ten requests, and is reported when it is a tenth off.
SMOOTHING = 0.2
WORTH_TELLING = 0.1
# A server whose factor is outside of these counts something other than tokens.
FACTOR_MIN, FACTOR_MAX = 0.25, 8.0
# A size that was refused is tried again after a day: the server may have been replaced, and the trial costs one refused
# request and its halves.
REFUSED_GOOD_FOR_MS = 86_400_000
# A size that was too slow doubles after each ten minutes: with a deadline of half a minute, a server that stays slow
# loses a twentieth of its time to the trials.
SLOW_DOUBLES_MS = 600_000


def found_inputs(
    now: int, refused: int | None, refused_at: int | None, slow: int | None, slow_at: int | None
) -> int | None:
    """The inputs that one request may hold by what was found out (see `control/found_size`); None = nothing was."""
    found = []
    if refused is not None and now - (refused_at or 0) < REFUSED_GOOD_FOR_MS:
        found.append(refused)
    if slow is not None:
        # Beyond twenty doublings no profile is smaller.
        found.append(slow << min(20, max(0, now - (slow_at or 0)) // SLOW_DOUBLES_MS))
    return min(found, default=None)


@dataclass(frozen=True, slots=True)
class ProviderReport:
    """Requests and tokens per minute (None = not said); `token_factor`: tokens charged per token estimated."""

    requests: int | None = None
    tokens: int | None = None
    token_factor: float = 1.0

    @property
    def unlimited(self) -> bool:
        """True if the provider said nothing of limits."""
        return self.requests is None and self.tokens is None


class Sent(Protocol):
    """The part of a batch's requests that a report is made of (`pipeline.provider_call.Sent`)."""

    rate: RateHeaders | None
    estimated: int
    charged: int


class Reporter:
    """What one worker process saw and reported."""

    def __init__(self, window_ms: int | None = None) -> None:
        """`window_ms`: the interval of the provider's limits (`EMBEDDING_PROVIDER_WINDOW`); None = by its answers."""
        self._window_s = None if window_ms is None else window_ms / 1000
        self._longest: dict[str, tuple[int, float]] = {}
        self._factor: float | None = None
        # No report means: no limits, and an estimate that is right.
        self._told = ProviderReport()
        self._told_at = 0.0

    def worth_telling(self, sent: Sent, now: float) -> ProviderReport | None:
        """A report if a batch showed something new, or if a known limit is due to be renewed; otherwise None.

        `now` is a monotonic clock's reading in seconds.
        """
        if sent.charged and sent.estimated:
            seen = min(max(sent.charged / sent.estimated, FACTOR_MIN), FACTOR_MAX)
            before = seen if self._factor is None else self._factor
            self._factor = before + SMOOTHING * (seen - before)
        # A limit of zero would be a wait without an end; a server that means it answers 429.
        rate = sent.rate or RateHeaders()
        requests = self._per_minute("requests", rate.limit_requests, rate.requests_window_s())
        tokens = self._per_minute("tokens", rate.limit_tokens, rate.tokens_window_s())
        report = ProviderReport(requests, tokens, self._factor or 1.0)
        limited = requests is not None or tokens is not None
        if not self._is_new(report) and not (limited and now - self._told_at >= RENEW_AFTER_S):
            return None
        self._told, self._told_at = report, now
        return report

    def _per_minute(self, budget: str, limit: int | None, window_s: float) -> int | None:
        """A limit as so much per minute, at least 1. The longest interval counts that was seen with this limit: just
        before an hour is over its reset looks like that of a minute."""
        if not limit:
            return None
        known, longest = self._longest.get(budget, (limit, window_s))
        if known == limit:
            window_s = max(window_s, longest)
        self._longest[budget] = (limit, window_s)
        return max(1, int(limit * WINDOW_MS / 1000 / (self._window_s or window_s)))

    def _is_new(self, report: ProviderReport) -> bool:
        told = self._told
        drift = abs(report.token_factor / told.token_factor - 1.0)
        return (report.requests, report.tokens) != (told.requests, told.tokens) or drift > WORTH_TELLING
