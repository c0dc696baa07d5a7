"""How fast the limits let a given amount of work go: those that are configured, and those that the provider named."""

import math
from dataclasses import dataclass
from typing import Any

from neo4j_queue.queue.budget import RateLimits, with_margin
from neo4j_queue.queue.provider_limits import WINDOW_MS, ProviderReport


@dataclass(frozen=True, slots=True)
class Cap:
    """So much of `what` in any window; `limit` 0 = never any."""

    what: str
    needed: int
    limit: int
    window_ms: int
    per_ms: int

    @property
    def seconds(self) -> float | None:
        """The shortest time in which the need can begin: all that a window holds at once, window after window."""
        if self.needed == 0:
            return 0.0
        if self.limit == 0:
            return None
        return (math.ceil(self.needed / self.limit) - 1) * self.window_ms / 1000

    def __str__(self) -> str:
        return f"{self.limit:,} {self.what} per {self.per_ms / 1000:g} s"


@dataclass(frozen=True, slots=True)
class Pace:
    """The least time that the limits leave, in seconds, and the one that binds.

    `limited_by` None: there is no limit, and the workers' own speed decides. `seconds` None: not known for that
    reason, or a limit of 0 lets nothing through.
    """

    seconds: float | None
    limited_by: str | None


def pace(requests: int, tokens: int, limits: RateLimits, found: ProviderReport) -> Pace:
    """The least time for so many provider requests and model tokens. `found` is what the provider said last."""
    interval, minute = limits.interval_ms, WINDOW_MS
    wanted: list[tuple[str, int, int | None, int]] = [
        ("requests", requests, limits.requests, interval),
        ("model tokens", tokens, limits.tokens, interval),
        ("requests (as the provider says)", requests, found.requests, minute),
        ("model tokens (as the provider says)", tokens, found.tokens, minute),
    ]
    caps = [
        Cap(what, needed, limit, with_margin(ms), ms)
        for what, needed, limit, ms in wanted
        if limit is not None
    ]
    if not caps:
        return Pace(None, None)
    binding = max(caps, key=_slowness)
    return Pace(binding.seconds, str(binding))


def _slowness(cap: Cap) -> tuple[float, float]:
    """By time; among those that take none, by the share of the limit that is used."""
    seconds: Any = cap.seconds
    return (math.inf if seconds is None else seconds, cap.needed / cap.limit if cap.limit else 0.0)
